"""Writes isl expressions and loops as C, in the style of the original loops."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import islpy as isl

from nearfield.rewrite.analysis.program import LoopNest
from nearfield.rewrite.frontend.text import reindent, skip_blank, statement_end
from nearfield.rewrite.model.names import IslNames

_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "and_": "&&", "and_then": "&&", "or_": "||", "or_else": "||", "eq": "==",
    "le": "<=", "lt": "<", "ge": ">=", "gt": ">", "fdiv_q": "/", "pdiv_q": "/", "div": "/", "pdiv_r": "%",
    "zdiv_r": "%",
}  # fmt: skip


class NotExpressible(Exception):
    """Raised if isl generates an expression or a loop that cannot be written as C."""


@dataclass(frozen=True)
class LoopStyle:
    """The style in which the loops of a source file are written."""

    step: str  # one step of indentation
    head: str  # "for (" or "for("
    before: bool  # ++i instead of i++
    spaced: bool  # i < n instead of i<n

    @staticmethod
    def from_text(text: str, step: str) -> LoopStyle:
        """Returns the style of a loop's source text; `step` is one step of indentation."""
        head = "for(" if "for(" in text else "for ("
        compact = re.search(r"[\w\])]<=?[\w(]", text) is not None
        return LoopStyle(step, head, re.search(r"(\+\+|--)\s*\w+\s*\)", text) is not None, not compact)

    def apply_spacing(self, words: str) -> str:
        """Returns an expression with or without blanks around its operators, as the style has it."""
        return words if self.spaced else re.sub(r" ([-+*<>=]=?) ", r"\1", words)


class LoopWriter:
    """Writes C loops over a set of iterations of one loop nest."""

    def __init__(
        self, names: IslNames, nest: LoopNest, body: str, old_indent: str, style: LoopStyle, more: Mapping[str, str]
    ) -> None:
        self.nest = nest
        self.style = style
        self._body, self._old_indent = body, old_indent
        self._words = {**c_names_of_parameters(names), **more}  # `more`: C names for isl parameters of these loops only
        self._iterators = [names.iterator_name(loop.iterator.key) for loop in nest.loops]
        for name, loop in zip(self._iterators, nest.loops, strict=True):
            self._words[name] = loop.iterator.text
        self.written = 0  # number of copies of the loop body written so far

    def write_loops(self, instances: isl.Set, context: isl.Set, indent: str, *, reverse: int = 0) -> str:
        """Returns C loops over the given iterations, with the `reverse` outermost loops counting backwards. Raises
        NotExpressible if that is not possible."""
        build = isl.AstBuild.from_context(context)
        ids = isl.IdList.alloc(isl.DEFAULT_CONTEXT, len(self._iterators))
        for name in self._iterators:
            ids = ids.add(isl.Id(name))
        build = build.set_iterators(ids)
        name = instances.get_tuple_name()
        dims = ", ".join(self._iterators)
        separate = "; ".join(f"[{dims}] -> separate[{place}]" for place in range(len(self._iterators)))
        build = build.set_options(isl.UnionMap(f"{{ {separate} }}"))
        schedule = isl.UnionMap(f"{{ {name}[{dims}] -> [{dims}] }}").intersect_domain(isl.UnionSet.from_set(instances))
        return self._write_node(build.node_from_schedule_map(schedule), 0, indent, reverse)

    # ---- loops and conditions

    def _write_node(self, node: isl.AstNode, depth: int, indent: str, reverse: int) -> str:
        """Returns the C code for a node of isl's syntax tree at a loop depth."""
        kind = _node_kind(node)
        if kind == "block":
            children = node.block_get_children()
            parts = [children.get_at(place) for place in range(children.n_ast_node())]
            if depth < len(self._iterators) and self._counts_down(depth, reverse):
                parts.reverse()
            return "\n".join(self._write_node(part, depth, indent, reverse) for part in parts)
        if kind == "if_":
            return self._write_if(node, depth, indent, reverse)
        if kind == "for_":
            own = self._iterators.index(node.for_get_iterator().get_id().get_name())
        elif kind == "user":
            own = len(self._iterators)
        else:
            raise NotExpressible("isl made a node of another kind")
        missing = self._single_value_loop(node, depth, own)
        if missing is not None:
            head, inner = missing
            return self._wrap_in_loop(
                head, self._write_node(node, depth + 1, self._indent_deeper(indent), reverse), indent, depth
            )
        if kind == "user":
            self.written += 1
            return reindent(self._body, self._old_indent, indent)
        head = (
            self._descending_header(node, own) if self._counts_down(own, reverse) else self._ascending_header(node, own)
        )
        return self._wrap_in_loop(
            head, self._write_node(node.for_get_body(), own + 1, self._indent_deeper(indent), reverse), indent, own
        )

    def _counts_down(self, depth: int, reverse: int) -> bool:
        """Returns whether the loop at a depth counts downwards in the new code."""
        return self.nest.loops[depth].down != (depth < reverse)

    def _single_value_loop(self, node: isl.AstNode, depth: int, own: int) -> tuple[str, None] | None:
        """Returns the header of a loop for an iterator that has a single value, for which isl generates no loop; None
        for other iterators."""
        if depth >= own:
            return None
        user = node
        while _node_kind(user) != "user":
            if _node_kind(user) == "for_":
                user = user.for_get_body()
            elif _node_kind(user) == "if_":
                user = user.if_get_then()
            else:
                user = user.block_get_children().get_at(0)
        value = user.user_get_expr().get_op_arg(depth + 1)
        first, after = self._expression_text(value), self._expression_plus_one(value)
        loop = self.nest.loops[depth]
        return self._loop_header(loop.declares, loop.iterator.text, first, f"< {after}", 1), None

    def _wrap_in_loop(self, head: str, inner: str, indent: str, depth: int) -> str:
        """Returns a loop header with its body, in braces if the body may be more than one statement."""
        pragmas = "".join(f"{indent}{line}\n" for line in self.nest.loops[depth].pragmas)
        stripped = inner.lstrip()
        if stripped.startswith("{"):
            return f"{pragmas}{indent}{head} {reindent(stripped, self._indent_deeper(indent), indent).lstrip()}"
        if inner.count("\n") and self._may_be_several_statements(inner, self._indent_deeper(indent)):
            return f"{pragmas}{indent}{head} {{\n{inner}\n{indent}}}"
        return f"{pragmas}{indent}{head}\n{inner}"

    @staticmethod
    def _may_be_several_statements(inner: str, indent: str) -> bool:
        """Returns whether a piece of C code may be more than one statement."""
        start = skip_blank(inner, 0)
        return inner[start] == "#" or bool(inner[statement_end(inner, start) :].strip())

    def _indent_deeper(self, indent: str) -> str:
        """Returns an indent increased by one step."""
        return indent + self.style.step

    def _ascending_header(self, node: isl.AstNode, own: int) -> str:
        """Returns the header of an ascending loop."""
        loop = self.nest.loops[own]
        step = int(node.for_get_inc().get_val().to_python())
        return self._loop_header(
            loop.declares, loop.iterator.text, self._expression_text(node.for_get_init()), self._loop_test(node), step
        )

    def _descending_header(self, node: isl.AstNode, own: int) -> str:
        """Returns the header of a descending loop. Raises NotExpressible for a loop with a stride."""
        loop = self.nest.loops[own]
        if int(node.for_get_inc().get_val().to_python()) != 1:
            raise NotExpressible("a loop with a stride is not reversed")
        first, name = self._expression_text(node.for_get_init()), loop.iterator.text
        declared = f"{loop.declares} " if loop.declares else ""
        test = node.for_get_cond()
        bound = test.get_op_arg(1)
        inclusive = _operator_name(test) == "le"
        if loop.unsigned:
            after = self._expression_plus_one(bound) if inclusive else self._expression_text(bound)
            if loop.pragmas:
                raise NotExpressible("OpenMP takes no loop that counts down without a sign")
            return self.style.apply_spacing(f"{self.style.head}{declared}{name} = {after}; {name}-- > {first};)")
        last = self._expression_text(bound) if inclusive else self._expression_plus_one(bound, -1)
        change = f"--{name}" if self.style.before else f"{name}--"
        return self.style.apply_spacing(f"{self.style.head}{declared}{name} = {last}; {name} >= {first}; {change})")

    def _loop_header(self, declares: str, name: str, first: str, test: str, step: int) -> str:
        """Returns a C loop header from its parts, in the style of the file."""
        change = (f"++{name}" if self.style.before else f"{name}++") if step == 1 else f"{name} += {step}"
        declared = f"{declares} " if declares else ""
        return self.style.apply_spacing(f"{self.style.head}{declared}{name} = {first}; {name} {test}; {change})")

    def _loop_test(self, node: isl.AstNode) -> str:
        """Returns the comparison in a loop header, such as `< n`."""
        condition = node.for_get_cond()
        kind = _operator_name(condition)
        bound = condition.get_op_arg(1)
        if kind == "lt":
            return f"< {self._expression_text(bound)}"
        if kind != "le":
            raise NotExpressible("a loop's test is no upper bound")
        if _node_kind(bound) == "op" and "m" in _operator_name(bound)[:1]:  # min, max, mul, minus
            return f"<= {self._expression_text(bound)}"
        return f"< {self._expression_plus_one(bound)}"

    def _write_if(self, node: isl.AstNode, depth: int, indent: str, reverse: int) -> str:
        """Returns a C `if` with its branches."""
        inner = self._write_node(node.if_get_then(), depth, self._indent_deeper(indent), reverse)
        text = f"{indent}if ({self._expression_text(node.if_get_cond())}) {{\n{inner}\n{indent}}}"
        if node.if_has_else():
            other = self._write_node(node.if_get_else(), depth, self._indent_deeper(indent), reverse)
            text += f" else {{\n{other}\n{indent}}}"
        return text

    # ---- expressions

    def _expression_text(self, expression: isl.AstExpr) -> str:
        """Returns an isl expression as C."""
        return expression_as_c(expression, self._words)

    def _expression_plus_one(self, expression: isl.AstExpr, sign: int = 1) -> str:
        """Returns an isl expression plus `sign` (1 or -1) as C."""
        terms = _linear_coefficients(expression)
        if terms is None:
            return f"{self._expression_text(expression)} {'+' if sign > 0 else '-'} 1"
        terms[""] = terms.get("", 0) + sign
        return sum_as_c(terms, self._words)


def c_names_of_parameters(names: IslNames) -> dict[str, str]:
    """Returns the C expression of each isl parameter, by its isl name."""
    words = {}
    for keys, name in names.parameters.items():
        if any(names.symbols[key].foreign for key in keys):
            continue
        words[name] = " * ".join(names.symbols[key].text for key in keys)
    return words


def expression_as_c(expression: isl.AstExpr, words: Mapping[str, str]) -> str:
    """Returns an isl expression as C. Raises NotExpressible if C has no equivalent."""
    terms = _linear_coefficients(expression)
    if terms is not None:
        return sum_as_c(terms, words)
    name = _operator_name(expression)
    arguments = [expression.get_op_arg(place) for place in range(expression.get_op_n_arg())]
    texts = [expression_as_c(one, words) for one in arguments]
    if name in ("max", "min"):
        made = texts[0]
        for text in texts[1:]:
            made = f"({made} {'>' if name == 'max' else '<'} {text} ? {made} : {text})"
        return made
    if name == "minus":
        return f"-{_in_parentheses(texts[0])}"
    if name not in _OPERATORS or len(texts) != 2:
        raise NotExpressible(f"isl made '{name}', which is not written here")
    if name in ("and_", "and_then", "or_", "or_else"):
        inner = [
            f"({text})" if ("||" in text or "&&" in text) and _OPERATORS[name] not in text else text for text in texts
        ]
        return f" {_OPERATORS[name]} ".join(inner)
    if name in ("eq", "le", "lt", "ge", "gt"):
        return f"{texts[0]} {_OPERATORS[name]} {texts[1]}"
    if name == "fdiv_q":
        raise NotExpressible("isl made a division that rounds down")
    return f"{_in_parentheses(texts[0])} {_OPERATORS[name]} {_in_parentheses(texts[1])}"


def _in_parentheses(text: str) -> str:
    """Returns a C expression in parentheses, unless it is a single name or number."""
    return text if re.fullmatch(r"\w+|\(.*\)", text) else f"({text})"


def sum_as_c(terms: Mapping[str, int], words: Mapping[str, str]) -> str:
    """Returns a sum as C, with positive terms first and the constant last. Raises NotExpressible if a term has no C
    expression."""
    text = ""
    for name, factor in sorted(terms.items(), key=lambda term: (term[0] == "", term[1] < 0)):
        if not factor:
            continue
        if name and name not in words:
            raise NotExpressible("a bound depends on a variable of another function")
        word = words[name] if name else str(abs(factor))
        if name and abs(factor) != 1:
            word = f"{abs(factor)} * {word}"
        text += (" - " if factor < 0 else " + ") + word if text else ("-" if factor < 0 else "") + word
    return text or "0"


def _linear_coefficients(expression: isl.AstExpr) -> dict[str, int] | None:
    """Returns the coefficients of an isl expression by parameter name, with '' for the constant; None if the expression
    is not linear."""
    if _node_kind(expression) == "int":
        return {"": int(expression.get_val().to_python())}
    if _node_kind(expression) == "id":
        return {expression.get_id().get_name(): 1}
    name = _operator_name(expression)
    if name not in ("add", "sub", "minus", "mul"):
        return None
    parts = [_linear_coefficients(expression.get_op_arg(place)) for place in range(expression.get_op_n_arg())]
    if any(part is None for part in parts):
        return None
    first = dict(parts[0] or {})
    if name == "minus":
        return {key: -factor for key, factor in first.items()}
    second = dict(parts[1] or {})
    if name == "mul":
        constants = [part for part in (first, second) if set(part) <= {""}]
        if not constants:
            return None
        number = constants[0].get("", 0)
        other = second if constants[0] is first else first
        return {key: factor * number for key, factor in other.items()}
    for key, factor in second.items():
        first[key] = first.get(key, 0) + (factor if name == "add" else -factor)
    return first


def _operator_name(expression: isl.AstExpr) -> str:
    """Returns the operator of an isl expression. Raises NotExpressible if the expression has none."""
    if _node_kind(expression) != "op":
        raise NotExpressible("isl made an expression of another kind")
    return str(expression.get_op_type()).rsplit(".", 1)[-1]


def _node_kind(node: isl.AstNode | isl.AstExpr) -> str:
    """Returns the kind of a node or expression of isl's syntax tree, such as "for_" or "op"."""
    return str(node.get_type()).rsplit(".", 1)[-1]
