"""Formats in which a site installs rules for all users; each file exports one `ExportFormat` as `SPEC`."""

import importlib
import pkgutil

from nearfield.apply.formats.format import ExportFormat

FORMATS: dict[str, ExportFormat] = {
    spec.name: spec
    for spec in (
        importlib.import_module(f"{__name__}.{m.name}").SPEC
        for m in pkgutil.iter_modules(__path__)
        if m.name != "format"
    )
}
__all__ = ["FORMATS", "ExportFormat"]
