"""Where a chain of Java and Python plugins is divided, and which chains cannot be."""

from __future__ import annotations

import pytest

from spark_tasks.plugins import Kind, PassedOver, Plugins
from spark_tasks.plugins.chain_cut import Cut, cut_of, far_plugin
from spark_tasks.plugins.discovery import Found

KAFKAS = "org.apache.kafka.connect."
BYTES = f"{KAFKAS}converters.ByteArrayConverter"
JSON = f"{KAFKAS}json.JsonConverter"
KINDS = (Kind.TRANSFORMATION, Kind.PREDICATE, Kind.CONVERTER, Kind.HEADER_CONVERTER)


class Plugin:
    version = "1"


class Java(Plugin):
    runtime = "java"


@pytest.fixture(scope="module")
def plugins():
    """Of each kind one that Python has (`py.X`), one that Java has (`java.X`), and two that both have."""
    def found(name, kind, cls=Plugin):
        return Found(name, kind, f"{__name__}:{cls.__name__}", "somewhere")

    own = [found(name, kind) for kind in KINDS for name in ("py.X", f"{KAFKAS}Both", "jars.Both", JSON)]
    return Plugins(installed=own, others={found("java.X", kind, Java): lambda: Java for kind in KINDS},
                   passed_over={(kind, "jars.Both"): [PassedOver("java", "1", "a jar")] for kind in KINDS})


def config(*transforms, **converters):
    """Transforms t0, t1, …, each the class or the class and its predicate's."""
    found = {"key.converter": JSON, "value.converter": JSON, "header.converter": JSON,
             "transforms": ",".join(f"t{n}" for n in range(len(transforms)))}
    predicates = []
    for n, one in enumerate(transforms):
        name, predicate = one if isinstance(one, tuple) else (one, None)
        found[f"transforms.t{n}.type"] = name
        if predicate is not None:
            predicates.append(f"p{n}")
            found |= {f"transforms.t{n}.predicate": f"p{n}", f"predicates.p{n}.type": predicate}
    return found | {"predicates": ",".join(predicates)} | {f"{part}.converter": one for part, one in converters.items()}


P, J, B = "py.X", "java.X", f"{KAFKAS}Both"
KEYS = frozenset({"key", "value"})


@pytest.mark.parametrize(("given", "sink", "source"), [
    (config(), None, None),
    (config(J, B, "jars.Both", key=J), None, None),
    (config(P), Cut(("t0",), (), KEYS), Cut(("t0",), (), KEYS)),
    (config(B, P, B), Cut(("t0", "t1"), ("t2",), KEYS), Cut(("t1", "t2"), ("t0",), KEYS)),
    (config(B, value=P), Cut((), ("t0",), frozenset({"value"})), Cut((), ("t0",), frozenset({"value"}))),
    (config(J, key=P, value=J), Cut((), ("t0",), frozenset({"key"})), Cut((), ("t0",), frozenset({"key"}))),
    (config((B, P), header=P), *[Cut(("t0",), (), KEYS | {"header"})] * 2),
    (config((B, J)), None, None),
    (config(P, J), Cut(("t0",), ("t1",), KEYS), {"transforms.t1.type": "comes after the Python plugin py.X"}),
    (config(J, P), {"transforms.t0.type": "comes before the Python plugin py.X"}, Cut(("t1",), ("t0",), KEYS)),
    (config((P, J)), *[{"predicates.p0.type": "both must run in the same runtime"}] * 2),
    (config((J, P)), *[{"predicates.p0.type": "both must run in the same runtime"}] * 2),
    (config(P, value=J), *[{"value.converter": "Use a converter that heeler has"}] * 2),
    (config("nobody.Knows", P), Cut(("t0", "t1"), (), KEYS), Cut(("t1",), ("t0",), KEYS)),
])
def test_the_chain_of_a_java_connector_is_cut_at_most_once(plugins, given, sink, source):
    for wanted, is_sink in ((sink, True), (source, False)):
        cut, refusals = cut_of(plugins, given, {}, is_sink=is_sink, java=True)
        if isinstance(wanted, dict):
            assert [refusal.key for refusal in refusals] == list(wanted)
            assert all(words in refusal.message for refusal, words in zip(refusals, wanted.values(), strict=True))
        else:
            assert (cut, refusals) == (wanted, [])


@pytest.mark.parametrize(("given", "sink", "source"), [
    (config(P, B, "jars.Both", value=P), None, None),
    (config(B, J, P), Cut(("t0", "t1"), ("t2",), KEYS), {"transforms.t2.type": "comes after the Java plugin java.X"}),
    (config(P, J), {"transforms.t0.type": "comes before the Java plugin java.X"}, Cut(("t1",), ("t0",), KEYS)),
    (config(P, value=J), *[Cut((), ("t0",), frozenset({"value"}))] * 2),
    (config(J, key=P), *[{"key.converter": "Use a converter that Java has, too"}] * 2),
    (config(header=J), *[{"header.converter": "only heeler's own header converters work with a Python"}] * 2),
    (config((J, B)), *[Cut(("t0",), (), KEYS)] * 2),
])
def test_the_chain_of_a_python_connector_is_cut_at_most_once(plugins, given, sink, source):
    for wanted, is_sink in ((sink, True), (source, False)):
        cut, refusals = cut_of(plugins, given, {}, is_sink=is_sink, java=False)
        if isinstance(wanted, dict):
            assert [refusal.key for refusal in refusals] == list(wanted)
            assert all(words in refusal.message for refusal, words in zip(refusals, wanted.values(), strict=True))
        else:
            assert (cut, refusals) == (wanted, [])
    found = far_plugin(plugins, given | {"header.converter": JSON}, {})
    assert (found is not None) == (J in given.values() and given["header.converter"] != J)


def test_the_workers_converters_apply_if_the_connector_has_none(plugins):
    given = {"transforms": "t", "transforms.t.type": J}
    cut, _ = cut_of(plugins, given, {"value.converter": P}, is_sink=True, java=True)
    assert cut == Cut((), ("t",), frozenset({"value"}))


def test_an_unused_predicate_is_not_passed_to_the_other_runtime(plugins):
    given = config(J) | {"predicates": "p", "predicates.p.type": P}
    cut, refusals = cut_of(plugins, given, {}, is_sink=True, java=True)
    assert (cut, refusals) == (Cut((), ("t0",), frozenset()), [])
    assert not cut.divides
    assert cut.for_near(given)["predicates"] == ""


def test_each_runtime_gets_its_part_of_the_configuration():
    given = config((P, P), (J, J), value=P) | {"value.converter.x": "1", "key.converter.schemas.enable": "false"}
    cut = Cut(("t0",), ("t1",), KEYS)
    ours, theirs = cut.for_far(given), cut.for_near(given)
    assert (ours["transforms"], ours["predicates"], theirs["transforms"], theirs["predicates"]) == (
        "t0", "p0", "t1", "p1")
    assert (ours["value.converter"], ours["value.converter.x"], ours["header.converter"]) == (P, "1", JSON)
    assert (theirs["value.converter"], theirs["value.converter.schemas.enable"]) == (JSON, "true")
    assert "value.converter.x" not in theirs
    ours = Cut((), ("t1",), frozenset({"value"})).for_far(given)
    assert (ours["key.converter"], ours["header.converter"], ours["value.converter"]) == (BYTES, BYTES, P)
    assert "key.converter.schemas.enable" not in ours
