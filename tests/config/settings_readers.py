"""Which fields of the settings' models are read by some code: a walk over syntax trees, by names and types.

An expression is of a model by its annotation, by the field or function that it comes from, or by the variable
that holds such a value. Names are taken together over all files, which finds a reader too many rather than
one too few; a field whose name another object has, too, is not read by reading that object.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import BaseModel

Model = type[BaseModel]


def models_in(model: Model) -> dict[str, Model]:
    """The model and all groups of settings inside it, by class name."""
    found = {model.__name__: model}
    for each in model.model_fields.values():
        for inner in _inner(each.annotation):
            found |= models_in(inner)
    return found


def _inner(annotation: Any) -> Iterator[Model]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _inner(part)


def unread(model: Model, trees: Iterable[ast.Module]) -> set[str]:
    """`Model.field` of every field that none of the `trees` reads."""
    models, known = models_in(model), list(trees)
    names = _names(models, known)
    reads = {read for tree in known for read in _reads(tree, names, models)}
    everything = {f"{name}.{each}" for name, found in models.items() for each in found.model_fields}
    return everything - {f"{owner}.{attribute}" for owner, attribute in _followed(reads, models, known)}


@dataclass(slots=True)
class _Names:
    """Class names by what a variable, an attribute or a call of that name is."""

    values: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    calls: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def of(self, node: ast.expr) -> set[str]:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return self.values.get(name, set())
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments):
                passed = arguments if name in {"sorted", "tuple", "list"} else []
                return self.calls.get(name, set()).union(*map(self.of, passed))
            case ast.Subscript(value=value):
                return self.of(value)
            case ast.Await(value=value) | ast.Starred(value=value):
                return self.of(value)
        return set()


def _names(models: dict[str, Model], trees: list[ast.Module]) -> _Names:
    names = _Names()
    for found in models.values():
        for name, each in found.model_fields.items():
            names.values[name] |= {inner.__name__ for inner in _inner(each.annotation)}
    for name in models:
        names.calls[name].add(name)
    nodes = [node for tree in trees for node in ast.walk(tree)]
    for node in nodes:
        _annotated(node, models, names)
    before = -1
    while (now := sum(map(len, names.values.values()))) != before:
        before = now
        for node in nodes:
            _assigned(node, names)
    return names


def _annotated(node: ast.AST, models: dict[str, Model], names: _Names) -> None:
    match node:
        case ast.arg(arg=name, annotation=annotation) if annotation is not None:
            names.values[name] |= _named(annotation, models)
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
            names.values[name] |= _named(annotation, models)
        case ast.FunctionDef(name=name, returns=annotation) if annotation is not None:
            names.calls[name] |= _named(annotation, models)
            names.values[name] |= _named(annotation, models)  # a property


def _named(annotation: ast.expr, models: dict[str, Model]) -> set[str]:
    """Models that the annotation names, also inside a container or in quotes."""
    if any(isinstance(node, ast.Name) and node.id == "Callable" for node in ast.walk(annotation)):
        return set()
    words = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    words |= {str(node.value) for node in ast.walk(annotation) if isinstance(node, ast.Constant)}
    return words & set(models)


def _assigned(node: ast.AST, names: _Names) -> None:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            names.values[name] |= names.of(value)
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            names.values[name] |= names.of(value)
        case ast.For(target=ast.Name(id=name), iter=value):
            names.values[name] |= names.of(value)
        case ast.comprehension(target=ast.Name(id=name), iter=value):
            names.values[name] |= names.of(value)


def _reads(tree: ast.Module, names: _Names, models: dict[str, Model]) -> Iterator[tuple[str, str]]:
    """(class, attribute) of all that is read of a value of a model.

    Private methods of models check values or name them in a digest: they are no readers.
    """
    private = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name in models
        for each in node.body
        if isinstance(each, ast.FunctionDef) and each.name.startswith("_")
        for inner in ast.walk(each)
    }
    for node in ast.walk(tree):
        if node in private:
            continue
        match node:
            case ast.Attribute(value=value, attr=name):
                yield from ((owner, name) for owner in names.of(value))
            case ast.Call(func=ast.Name(id="getattr"), args=[value, name, *_]) if not isinstance(
                name, ast.Constant
            ):
                yield from ((owner, each) for owner in names.of(value) for each in models[owner].model_fields)


def _followed(
    reads: set[tuple[str, str]], models: dict[str, Model], trees: list[ast.Module]
) -> set[tuple[str, str]]:
    """The reads, and what the methods and properties that are read use of their own class."""
    inside = {
        (owner, method): attributes
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and (owner := node.name) in models
        for method, attributes in _methods(node)
    }
    known: set[tuple[str, str]] = set()
    todo = set(reads)
    while todo:
        known |= todo
        more = {(owner, each) for owner, method in todo for each in inside.get((owner, method), ())}
        todo = more - known
    return known


def _methods(node: ast.ClassDef) -> Iterator[tuple[str, set[str]]]:
    """Each method with the attributes of `self` that it reads."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef):
            yield (
                each.name,
                {
                    found.attr
                    for found in ast.walk(each)
                    if isinstance(found, ast.Attribute)
                    and isinstance(found.value, ast.Name)
                    and found.value.id == "self"
                },
            )
