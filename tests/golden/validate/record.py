"""Writes answers.json anew: `python record.py KIND=URL …`, one running Java worker for each kind in cases.WORKERS.

A kind that is not named keeps its recorded answers. Documentation texts are left out: heeler has its own.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cases import CASES, CREATE, PLUGIN_CONFIGS, load

ANSWERS = Path(__file__).with_name("answers.json")


def call(url: str, method: str, body: object = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=100) as response:
            return {"status": response.status, "body": without_docs(json.load(response))}
    except urllib.error.HTTPError as e:
        return {"status": e.code, "body": json.load(e)}


def without_docs(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_docs(v) for k, v in value.items() if k != "documentation"}
    return [without_docs(v) for v in value] if isinstance(value, list) else value


def errors_alone(body: dict[str, Any]) -> dict[str, Any]:
    values = [{key: entry["value"][key] for key in ("name", "errors")} for entry in body["configs"]]
    return {"error_count": body["error_count"], "configs": [{"value": one} for one in values if one["errors"]]}


def main() -> None:
    urls = dict(argument.split("=", 1) for argument in sys.argv[1:])
    answers = load() if ANSWERS.exists() else {}
    for name, (kind, plugin, config) in CASES.items():
        if kind in urls:
            path = f"/connector-plugins/{urllib.parse.quote(plugin)}/config/validate"
            answers[name] = call(urls[kind] + path, "PUT", config)
            if name.startswith("wrong "):
                answers[name]["body"] = errors_alone(answers[name]["body"])
    if "default" in urls:
        for name, config in CREATE.items():
            answers[name] = call(urls["default"] + "/connectors", "POST", {"name": config["name"], "config": config})
        for plugin in PLUGIN_CONFIGS:
            path = f"/connector-plugins/{urllib.parse.quote(plugin)}/config"
            answers[f"config {plugin}"] = call(urls["default"] + path, "GET")
        answers["plugins"] = call(urls["default"] + "/connector-plugins?connectorsOnly=false", "GET")
    shared = [text for text, times in Counter(_parts(list(answers.values()))).items() if times > 1 and len(text) > 60]
    numbers = {text: n for n, text in enumerate(shared)}
    lines = [f"{json.dumps(name)}: {json.dumps(_shortened(value, numbers))}" for name, value in answers.items()]
    ANSWERS.write_text('{"shared": [\n' + ",\n".join(shared) + '\n], "answers": {\n' + ",\n".join(lines) + "\n}}\n")


def _parts(value: Any) -> Iterator[str]:
    """Every definition, value and list of recommended values, as JSON: most are in many answers."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("definition", "value", "recommended_values") and isinstance(item, dict | list):
                yield json.dumps(item)
            else:
                yield from _parts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _parts(item)


def _shortened(value: Any, numbers: dict[str, int]) -> Any:
    if isinstance(value, dict | list) and json.dumps(value) in numbers:
        return {"shared": numbers[json.dumps(value)]}
    if isinstance(value, dict):
        return {key: _shortened(item, numbers) for key, item in value.items()}
    return [_shortened(item, numbers) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
