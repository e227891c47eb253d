"""Record what Java Kafka Connect answers to scenarios.py: `python -m tests.golden.rest.record URL BOOTSTRAP_SERVERS
CONFIG_TOPIC DIR`.

The worker must be alone, without connectors, with the file connectors on its plugin path. DIR gets a JSON file for
each scenario. Signed requests need the session key, which is read from the config topic.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import re
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.golden.rest.scenarios import SCENARIOS
from tests.golden.rest.steps import FORGED, SIGNED, Step

HEADERS = ("Content-Type", "Location", "Allow", "WWW-Authenticate")  # the answer's headers that mean something


def session_key(bootstrap: str, topic: str) -> bytes:
    """The newest session key in the config topic."""
    from kafka import KafkaConsumer  # the tests that replay the answers do without

    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest",
                             consumer_timeout_ms=3000, enable_auto_commit=False)
    keys = [json.loads(record.value) for record in consumer if record.key == b"session-key" and record.value]
    consumer.close()
    return base64.b64decode(keys[-1]["key"])


def signature(kind: str, body: bytes, key: bytes) -> dict[str, str]:
    """The two headers of a request between workers."""
    mac = hmac.new(key if kind == SIGNED else b"another key", body, hashlib.sha256).digest()
    return {"X-Connect-Authorization": base64.b64encode(mac).decode(),
            "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}


def payload(step: Step) -> bytes | None:
    """The request's body."""
    if step.raw is not None:
        return step.raw.encode()
    return None if step.body is None else json.dumps(step.body, ensure_ascii=False).encode()


def headers(step: Step, body: bytes | None, key: bytes) -> dict[str, str]:
    """The request's headers: JSON unless the step says otherwise; an empty value leaves a header out."""
    sent = {"Accept": "application/json"}
    if body is not None:
        sent["Content-Type"] = "application/json"
    sent.update(step.headers)
    if step.signature in {SIGNED, FORGED}:
        sent.update(signature(step.signature, body or b"", key))
    return {name: value for name, value in sent.items() if value}


def contains(part: Any, whole: Any) -> bool:
    """Whether `whole` has everything that `part` says; lists must have the same length."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and contains(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) == len(whole) and all(map(contains, part, whole))
    return part == whole


def send(netloc: str, step: Step, key: bytes) -> dict[str, Any]:
    """One request and its answer."""
    connection = http.client.HTTPConnection(netloc, timeout=100)
    body = payload(step)
    connection.request(step.method, step.path, body, headers(step, body, key))
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    try:
        answer = json.loads(text) if text else None
    except ValueError:
        answer = text
    kept = {name: response.headers[name] for name in HEADERS if response.headers[name] is not None}
    return {"name": step.name, "method": step.method, "path": step.path, "status": response.status, "headers": kept,
            "answer": answer}


def perform(netloc: str, step: Step, key: bytes) -> dict[str, Any]:
    """Repeats while the answer is not the wanted one, and (as Java's clients do) while a rebalance is under way."""
    deadline = time.monotonic() + 60
    while True:
        answer = send(netloc, step, key)
        busy = (answer["status"] in {409, 500}
                and ("rebalance" in str(answer["answer"]) or "momentarily" in str(answer["answer"])))
        if not busy and (step.until is None or contains(step.until, answer["answer"])):
            return answer
        if time.monotonic() > deadline:
            sys.stderr.write(f"not reached: {step} {answer}\n")
            return answer
        time.sleep(0.1)


def main() -> None:
    """Run all or the named scenarios."""
    url, bootstrap, topic, directory, *names = sys.argv[1:]
    key = session_key(bootstrap, topic)
    netloc = urlsplit(url).netloc
    for name in names or SCENARIOS:
        answers = [perform(netloc, step, key) for step in SCENARIOS[name]]
        text = json.dumps(answers, indent=1, ensure_ascii=False).replace(netloc, "worker:8083")
        text = re.sub(r"location='file:[^']*'", "location='plugins'", text)
        Path(directory, f"{name}.json").write_text(text + "\n")
        sys.stdout.write(f"{name}: {len(answers)} answers\n")


if __name__ == "__main__":
    main()
