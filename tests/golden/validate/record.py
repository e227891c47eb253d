"""Writes answers.json anew: `python record.py KIND=URL …`, one running Java worker for each kind in cases.WORKERS.

A kind that is not named keeps its recorded answers. Documentation texts are left out: heeler has its own.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from cases import CASES, CREATE, PLUGIN_CONFIGS

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


def main() -> None:
    urls = dict(argument.split("=", 1) for argument in sys.argv[1:])
    answers = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    for name, (kind, plugin, config) in CASES.items():
        if kind in urls:
            path = f"/connector-plugins/{urllib.parse.quote(plugin)}/config/validate"
            answers[name] = call(urls[kind] + path, "PUT", config)
    if "default" in urls:
        for name, config in CREATE.items():
            answers[name] = call(urls["default"] + "/connectors", "POST", {"name": config["name"], "config": config})
        for plugin in PLUGIN_CONFIGS:
            path = f"/connector-plugins/{urllib.parse.quote(plugin)}/config"
            answers[f"config {plugin}"] = call(urls["default"] + path, "GET")
        answers["plugins"] = call(urls["default"] + "/connector-plugins?connectorsOnly=false", "GET")
    ANSWERS.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in answers.items()) + "\n}\n")


if __name__ == "__main__":
    main()
