"""The OpenAPI document of an application, from its routes and operations.py, as JSON and as an HTML page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from typing import Any, Final

from apispec import APISpec
from werkzeug.routing import Rule

from rest.openapi.operations import OPERATIONS, Operation, responses_of
from rest.openapi.schemas import NUMBER, SCHEMAS, TEXT, ref

_LINKS: Final = {"connector": "$response.body#/name", "task": "$response.body#/tasks/0/task"}
_ARGUMENT: Final = re.compile(r"<(?:(\w+):)?(\w+)>")
_ABOUT: Final = {"connector": "The connector's name, percent-encoded.", "task": "The task's number.",
                 "plugin": "The plugin's class or alias.", "logger": "The logger's name, or root."}
_STYLE: Final = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
h2{margin-top:2rem}summary{cursor:pointer;padding:.3rem}details{border-top:1px solid #ddd}
code,pre{font:14px/1.4 ui-monospace,monospace}pre{background:#f6f6f6;padding:.6rem;overflow:auto}
b.m{display:inline-block;min-width:4.5rem}td{padding:.1rem .8rem .1rem 0;vertical-align:top}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}pre{background:#222}details{border-color:#444}}"""


def document(rules: Iterable[Rule], version: str) -> dict[str, Any]:
    """The document, OpenAPI 3.0. KeyError for an endpoint that is missing in operations.py."""
    about = "Kafka Connect's REST API with heeler's extensions."
    rules = sorted(rules, key=lambda rule: rule.rule)
    links = {rule.endpoint: _link_to(rule) for rule in rules
             if "connector" in rule.arguments and not rule.endpoint.startswith("internal.")}
    spec = APISpec("heeler", version, "3.0.3", info={"description": about}, components={"links": links})
    for name, schema in SCHEMAS.items():
        spec.components.schema(name, schema)
    linked = {"links": {name: {"$ref": f"#/components/links/{name}"} for name in links}}
    for rule in rules:
        methods = sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
        operation = _operation(rule, OPERATIONS[rule.endpoint], linked)
        spec.path(_ARGUMENT.sub(r"{\2}", rule.rule), operations={method.lower(): operation for method in methods})
    found: dict[str, Any] = spec.to_dict()
    return found


def _link_to(rule: Rule) -> dict[str, Any]:
    """A link from a response that describes a connector to another operation on this connector."""
    parameters = {name: where for name, where in _LINKS.items() if name in rule.arguments}
    return {"operationId": rule.endpoint, "parameters": parameters}


def _operation(rule: Rule, described: Operation, linked: dict[str, Any]) -> dict[str, Any]:
    """An OpenAPI operation object. `linked`: the links of responses that describe a connector."""
    parameters = [
        {"name": name, "in": "path", "required": True, "description": _ABOUT[name],
         "schema": {**NUMBER, "minimum": 0} if kind == "task" else {**TEXT, "minLength": 1}}
        for kind, name in _ARGUMENT.findall(rule.rule)
    ] + [
        {"name": query.name, "in": "query", "required": False, "description": query.about, "schema": query.schema}
        for query in described.query
    ]
    operation: dict[str, Any] = {
        "operationId": rule.endpoint, "summary": described.about, "tags": [rule.endpoint.split(".", maxsplit=1)[0]],
        "parameters": parameters,
        "responses": {str(code): {"description": response.about} | (
            {"content": {response.media: {"schema": response.schema}}} if response.schema is not None else {}) | (
            linked if response.schema == ref("Connector") else {})
            for code, response in sorted(responses_of(rule.endpoint).items())},
    }
    if described.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": described.body}}}
    return operation


def page(found: dict[str, Any]) -> str:
    """The document as HTML, without scripts or external resources."""
    by_tag: dict[str, list[str]] = {}
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            by_tag.setdefault(operation["tags"][0], []).append(_shown(method, path, operation))
    info, schemas = found["info"], found["components"]["schemas"]
    parts = [f"<h2>{escape(tag)}</h2>{''.join(shown)}" for tag, shown in by_tag.items()]
    shapes = "".join(f'<details id="{name}"><summary><code>{name}</code></summary>{_json(schema)}</details>'
                     for name, schema in schemas.items())
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{info['title']}</title><style>{_STYLE}</style><h1>{info['title']} {escape(info['version'])}</h1>"
            f"<p>{escape(info['description'])} The document: <a href=\"/openapi.json\">openapi.json</a></p>"
            f"{''.join(parts)}<h2>Schemas</h2>{shapes}</html>")


def _shown(method: str, path: str, operation: dict[str, Any]) -> str:
    parameters = "".join(f"<tr><td><code>{p['name']}</code><td>{p['in']}<td>{escape(p['description'])}"
                         for p in operation["parameters"])
    body = operation.get("requestBody")
    responses = "".join(f"<tr><td><code>{code}</code><td>{escape(response['description'])}<td>{_content(response)}"
                        for code, response in operation["responses"].items())
    return (f'<details><summary><b class="m">{method.upper()}</b> <code>{escape(path)}</code> '
            f"{escape(operation['summary'])}</summary><table>{parameters}</table>"
            f"{'<p>Body: ' + _content(body) if body else ''}<table>{responses}</table></details>")


def _content(holder: dict[str, Any]) -> str:
    return " ".join(f"{media} {_link(content['schema'])}" for media, content in holder.get("content", {}).items())


def _link(schema: dict[str, Any]) -> str:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return f'<a href="#{name}"><code>{name}</code></a>' if name else f"<code>{escape(json.dumps(schema))}</code>"


def _json(schema: dict[str, Any]) -> str:
    return f"<pre>{escape(json.dumps(schema, indent=1))}</pre>"
