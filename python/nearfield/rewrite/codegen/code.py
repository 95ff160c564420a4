"""Writes isl expressions and loops as C, in the style of the original loops."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import islpy as isl

from nearfield.rewrite.analysis.program import LoopNest
from nearfield.rewrite.frontend.text import reindent, skip_blank, statement_end
from nearfield.rewrite.model.names import IslNames

_C_OPERATOR_BY_ISL_OPERATOR = {
    "add": "+", "sub": "-", "mul": "*", "and_": "&&", "and_then": "&&", "or_": "||", "or_else": "||", "eq": "==",
    "le": "<=", "lt": "<", "ge": ">=", "gt": ">", "fdiv_q": "/", "pdiv_q": "/", "div": "/", "pdiv_r": "%",
    "zdiv_r": "%",
}  # fmt: skip


class NotExpressible(Exception):
    """Raised if isl generates an expression or a loop that cannot be written as C."""


@dataclass(frozen=True)
class LoopStyle:
    """The style in which the loops of a source file are written."""

    indent_step: str  # one step of indentation
    for_head: str  # "for (" or "for("
    has_prefix_increment: bool  # ++i instead of i++
    has_spaced_operators: bool  # i < n instead of i<n

    @staticmethod
    def from_text(text: str, indent_step: str) -> LoopStyle:
        """Returns the style of a loop's source text; `indent_step` is one step of indentation."""
        head = "for(" if "for(" in text else "for ("
        compact = re.search(r"[\w\])]<=?[\w(]", text) is not None
        return LoopStyle(indent_step, head, re.search(r"(\+\+|--)\s*\w+\s*\)", text) is not None, not compact)

    def apply_spacing(self, expression: str) -> str:
        """Returns an expression with or without blanks around its operators, as the style has it."""
        return expression if self.has_spaced_operators else re.sub(r" ([-+*<>=]=?) ", r"\1", expression)


class LoopWriter:
    """Writes C loops over a set of iterations of one loop nest."""

    def __init__(
        self,
        names: IslNames,
        nest: LoopNest,
        body: str,
        old_indent: str,
        style: LoopStyle,
        extra_c_names: Mapping[str, str],
    ) -> None:
        self.nest = nest
        self.style = style
        self._body, self._old_indent = body, old_indent
        self._c_name_by_isl_name = {
            **c_names_of_parameters(names),
            **extra_c_names,
        }  # `extra_c_names`: C names for isl parameters of these loops only
        self._iterators = [names.iterator_name(loop.iterator.key) for loop in nest.loops]
        for name, loop in zip(self._iterators, nest.loops, strict=True):
            self._c_name_by_isl_name[name] = loop.iterator.text
        self.num_body_copies = 0  # number of copies of the loop body written so far

    def write_loops(self, instances: isl.Set, context: isl.Set, indent: str, *, num_reversed_loops: int = 0) -> str:
        """Returns C loops over the given iterations, with the `num_reversed_loops` outermost loops counting backwards.
        Raises NotExpressible if that is not possible."""
        build = isl.AstBuild.from_context(context)
        ids = isl.IdList.alloc(isl.DEFAULT_CONTEXT, len(self._iterators))
        for name in self._iterators:
            ids = ids.add(isl.Id(name))
        build = build.set_iterators(ids)
        name = instances.get_tuple_name()
        dims = ", ".join(self._iterators)
        separate = "; ".join(f"[{dims}] -> separate[{depth}]" for depth in range(len(self._iterators)))
        build = build.set_options(isl.UnionMap(f"{{ {separate} }}"))
        schedule = isl.UnionMap(f"{{ {name}[{dims}] -> [{dims}] }}").intersect_domain(isl.UnionSet.from_set(instances))
        return self._write_node(build.node_from_schedule_map(schedule), 0, indent, num_reversed_loops)

    # ---- loops and conditions

    def _write_node(self, node: isl.AstNode, depth: int, indent: str, num_reversed_loops: int) -> str:
        """Returns the C code for a node of isl's syntax tree at a loop depth."""
        kind = _node_kind(node)
        if kind == "block":
            children = node.block_get_children()
            parts = [children.get_at(place) for place in range(children.n_ast_node())]
            if depth < len(self._iterators) and self._counts_down(depth, num_reversed_loops):
                parts.reverse()
            return "\n".join(self._write_node(part, depth, indent, num_reversed_loops) for part in parts)
        if kind == "if_":
            return self._write_if(node, depth, indent, num_reversed_loops)
        if kind == "for_":
            loop_depth = self._iterators.index(node.for_get_iterator().get_id().get_name())
        elif kind == "user":
            loop_depth = len(self._iterators)
        else:
            raise NotExpressible("isl made a node of another kind")
        single_value_header = self._single_value_loop(node, depth, loop_depth)
        if single_value_header is not None:
            head, inner = single_value_header
            return self._wrap_in_loop(
                head, self._write_node(node, depth + 1, self._indent_deeper(indent), num_reversed_loops), indent, depth
            )
        if kind == "user":
            self.num_body_copies += 1
            return reindent(self._body, self._old_indent, indent)
        head = (
            self._descending_header(node, loop_depth)
            if self._counts_down(loop_depth, num_reversed_loops)
            else self._ascending_header(node, loop_depth)
        )
        return self._wrap_in_loop(
            head,
            self._write_node(node.for_get_body(), loop_depth + 1, self._indent_deeper(indent), num_reversed_loops),
            indent,
            loop_depth,
        )

    def _counts_down(self, depth: int, num_reversed_loops: int) -> bool:
        """Returns whether the loop at a depth counts downwards in the new code."""
        return self.nest.loops[depth].is_descending != (depth < num_reversed_loops)

    def _single_value_loop(self, node: isl.AstNode, depth: int, loop_depth: int) -> tuple[str, None] | None:
        """Returns the header of a loop for an iterator that has a single value, for which isl generates no loop; None
        for other iterators."""
        if depth >= loop_depth:
            return None
        statement_node = node
        while _node_kind(statement_node) != "user":
            if _node_kind(statement_node) == "for_":
                statement_node = statement_node.for_get_body()
            elif _node_kind(statement_node) == "if_":
                statement_node = statement_node.if_get_then()
            else:
                statement_node = statement_node.block_get_children().get_at(0)
        value = statement_node.user_get_expr().get_op_arg(depth + 1)
        first, after = self._expression_text(value), self._expression_plus_one(value)
        loop = self.nest.loops[depth]
        return self._loop_header(loop.declared_type, loop.iterator.text, first, f"< {after}", 1), None

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
        return indent + self.style.indent_step

    def _ascending_header(self, node: isl.AstNode, loop_depth: int) -> str:
        """Returns the header of an ascending loop."""
        loop = self.nest.loops[loop_depth]
        step = int(node.for_get_inc().get_val().to_python())
        return self._loop_header(
            loop.declared_type,
            loop.iterator.text,
            self._expression_text(node.for_get_init()),
            self._loop_test(node),
            step,
        )

    def _descending_header(self, node: isl.AstNode, loop_depth: int) -> str:
        """Returns the header of a descending loop. Raises NotExpressible for a loop with a stride."""
        loop = self.nest.loops[loop_depth]
        if int(node.for_get_inc().get_val().to_python()) != 1:
            raise NotExpressible("a loop with a stride is not reversed")
        first, name = self._expression_text(node.for_get_init()), loop.iterator.text
        type_prefix = f"{loop.declared_type} " if loop.declared_type else ""
        test = node.for_get_cond()
        bound = test.get_op_arg(1)
        inclusive = _operator_name(test) == "le"
        if loop.is_unsigned:
            after = self._expression_plus_one(bound) if inclusive else self._expression_text(bound)
            if loop.pragmas:
                raise NotExpressible("OpenMP takes no loop that counts down without a sign")
            return self.style.apply_spacing(f"{self.style.for_head}{type_prefix}{name} = {after}; {name}-- > {first};)")
        last = self._expression_text(bound) if inclusive else self._expression_plus_one(bound, -1)
        step_text = f"--{name}" if self.style.has_prefix_increment else f"{name}--"
        return self.style.apply_spacing(
            f"{self.style.for_head}{type_prefix}{name} = {last}; {name} >= {first}; {step_text})"
        )

    def _loop_header(self, declared_type: str, name: str, start_value: str, test: str, step: int) -> str:
        """Returns a C loop header from its parts, in the style of the file."""
        step_text = (
            (f"++{name}" if self.style.has_prefix_increment else f"{name}++") if step == 1 else f"{name} += {step}"
        )
        type_prefix = f"{declared_type} " if declared_type else ""
        return self.style.apply_spacing(
            f"{self.style.for_head}{type_prefix}{name} = {start_value}; {name} {test}; {step_text})"
        )

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

    def _write_if(self, node: isl.AstNode, depth: int, indent: str, num_reversed_loops: int) -> str:
        """Returns a C `if` with its branches."""
        inner = self._write_node(node.if_get_then(), depth, self._indent_deeper(indent), num_reversed_loops)
        text = f"{indent}if ({self._expression_text(node.if_get_cond())}) {{\n{inner}\n{indent}}}"
        if node.if_has_else():
            other = self._write_node(node.if_get_else(), depth, self._indent_deeper(indent), num_reversed_loops)
            text += f" else {{\n{other}\n{indent}}}"
        return text

    # ---- expressions

    def _expression_text(self, expression: isl.AstExpr) -> str:
        """Returns an isl expression as C."""
        return expression_to_c(expression, self._c_name_by_isl_name)

    def _expression_plus_one(self, expression: isl.AstExpr, sign: int = 1) -> str:
        """Returns an isl expression plus `sign` (1 or -1) as C."""
        terms = _linear_coefficients(expression)
        if terms is None:
            return f"{self._expression_text(expression)} {'+' if sign > 0 else '-'} 1"
        terms[""] = terms.get("", 0) + sign
        return sum_to_c(terms, self._c_name_by_isl_name)


def c_names_of_parameters(names: IslNames) -> dict[str, str]:
    """Returns the C expression of each isl parameter, by its isl name."""
    c_names = {}
    for keys, name in names.parameters.items():
        if any(names.symbols[key].has_callee_names for key in keys):
            continue
        c_names[name] = " * ".join(names.symbols[key].text for key in keys)
    return c_names


def expression_to_c(expression: isl.AstExpr, c_names: Mapping[str, str]) -> str:
    """Returns an isl expression as C. Raises NotExpressible if C has no equivalent."""
    terms = _linear_coefficients(expression)
    if terms is not None:
        return sum_to_c(terms, c_names)
    name = _operator_name(expression)
    arguments = [expression.get_op_arg(place) for place in range(expression.get_op_n_arg())]
    operands = [expression_to_c(one, c_names) for one in arguments]
    if name in ("max", "min"):
        result = operands[0]
        for operand in operands[1:]:
            result = f"({result} {'>' if name == 'max' else '<'} {operand} ? {result} : {operand})"
        return result
    if name == "minus":
        return f"-{_in_parentheses(operands[0])}"
    if name not in _C_OPERATOR_BY_ISL_OPERATOR or len(operands) != 2:
        raise NotExpressible(f"isl made '{name}', which is not written here")
    if name in ("and_", "and_then", "or_", "or_else"):
        inner = [
            f"({operand})"
            if ("||" in operand or "&&" in operand) and _C_OPERATOR_BY_ISL_OPERATOR[name] not in operand
            else operand
            for operand in operands
        ]
        return f" {_C_OPERATOR_BY_ISL_OPERATOR[name]} ".join(inner)
    if name in ("eq", "le", "lt", "ge", "gt"):
        return f"{operands[0]} {_C_OPERATOR_BY_ISL_OPERATOR[name]} {operands[1]}"
    if name == "fdiv_q":
        raise NotExpressible("isl made a division that rounds down")
    return f"{_in_parentheses(operands[0])} {_C_OPERATOR_BY_ISL_OPERATOR[name]} {_in_parentheses(operands[1])}"


def _in_parentheses(text: str) -> str:
    """Returns a C expression in parentheses, unless it is a single name or number."""
    return text if re.fullmatch(r"\w+|\(.*\)", text) else f"({text})"


def sum_to_c(terms: Mapping[str, int], c_names: Mapping[str, str]) -> str:
    """Returns a sum as C, with positive terms first and the constant last. Raises NotExpressible if a term has no C
    expression."""
    text = ""
    for name, factor in sorted(terms.items(), key=lambda term: (term[0] == "", term[1] < 0)):
        if not factor:
            continue
        if name and name not in c_names:
            raise NotExpressible("a bound depends on a variable of another function")
        factor_text = c_names[name] if name else str(abs(factor))
        if name and abs(factor) != 1:
            factor_text = f"{abs(factor)} * {factor_text}"
        text += (" - " if factor < 0 else " + ") + factor_text if text else ("-" if factor < 0 else "") + factor_text
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
