"""Schemathesis against a running server's /openapi.json: hostile and well-formed requests, individually and along its
links. Checks that each response's status, media type and body match the document, that deleted objects are gone, and
that created ones exist. Kafka Connect returns 500 for malformed bodies, so a test has to search the log for defects
itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

CHECKS = ("status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "unsupported_method")
STATEFUL_CHECKS = ("gone_once_deleted", "ensure_resource_availability")

_HOOKS = '''
import json, os
import schemathesis
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import use_after_free

CONFIG = json.loads(os.environ["HEELER_API_CONFIG"])

@schemathesis.hook
def before_generate_body(context, strategy):
    """Some of the bodies are a connector that can run."""
    operation = context.operation.definition.raw["operationId"] if context.operation else ""
    if operation == "connectors.create":
        names = st.text("abcdef /%+;", min_size=1).filter(str.strip).map(str.strip)
        made = st.builds(lambda name: {"name": name, "config": CONFIG}, names)
        return st.one_of(strategy, made, made)  # a scenario needs one before it can follow a link
    if operation in ("connectors.put_config", "plugins.validate"):
        return st.one_of(strategy, st.just(CONFIG))
    return strategy

@schemathesis.check
def gone_once_deleted(context, response, case):
    """As in Kafka Connect, /topics does not ask whether there is such a connector."""
    return None if "/topics" in case.operation.path else use_after_free(context, response, case)
'''

def api_failures(port: int, folder: Path, config: Mapping[str, str], *, examples: int, seed: int | None = None,
                 checks: Sequence[str] = CHECKS, more: Sequence[str] = ()) -> str:
    """What schemathesis found, empty if all is well.

    `examples`: for each operation; without `seed` always the same ones. `config`: of a connector that can be created;
    `folder`: for files of the run; `more`: options of `st run`.
    """
    hooks = folder / "hooks_of_the_api_test.py"
    hooks.write_text(_HOOKS)
    chosen = ["--generation-deterministic"] if seed is None else ["--seed", str(seed)]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("schemathesis")), "run", f"http://127.0.0.1:{port}/openapi.json",
         "--no-color", "--checks", ",".join(checks), "--max-examples", str(examples), "--warnings", "off",
         "--suppress-health-check", "all", "--continue-on-failure", "--no-shrink", *chosen, *more],
        cwd=folder, capture_output=True, text=True, timeout=max(900, 12 * examples), check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "SCHEMATHESIS_HOOKS": hooks.stem, "PYTHONPATH": str(folder),
             "HEELER_API_CONFIG": json.dumps(config)})
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout if done.returncode else ""
