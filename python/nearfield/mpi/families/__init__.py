"""One module per MPI family, each of which exports a `MpiFamily` as `SPEC`. A new family is one new module here."""

import importlib
import pkgutil

from nearfield.mpi.installation import MpiFamily

FAMILIES: dict[str, MpiFamily] = {
    spec.name: spec
    for spec in (importlib.import_module(f"{__name__}.{m.name}").SPEC for m in pkgutil.iter_modules(__path__))
}
