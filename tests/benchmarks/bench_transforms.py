"""Each transform alone, on flat records without a schema: millions of records a second of one core.

`python -m tests.benchmarks.bench_transforms [--odd]`; with --odd, only records some of which lack members, or have
members of other types.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from spark_tasks.data.columns import HEADERS_TYPE, one_topic
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.transforms.chain import make_chain
from spark_tasks.pipeline.transforms.columns_or_rows import put
from spark_tasks.plugins import Kind, Plugins
from tests.benchmarks.bench_converters import rate

ROWS = 65_536
T = "org.apache.kafka.connect.transforms."
SCHEMA = (
    b'{"schema":{"type":"struct","optional":false,"fields":[{"type":"int64","optional":false,"field":"id"},'
    b'{"type":"string","optional":false,"field":"name"},{"type":"double","optional":false,"field":"amount"},'
    b'{"type":"int64","optional":false,"field":"ts"},{"type":"string","optional":false,"field":"day"},'
    b'{"type":"string","optional":false,"field":"zoned"},{"type":"string","optional":false,"field":"named"}]},'
    b'"payload":%s}'
)
CHAINS: dict[str, dict[str, str]] = {
    "Cast$Value": {"spec": "id:int32,amount:float32"},
    "Cast$Value ": {"spec": "id:string,name:string"},
    "DropHeaders": {"headers": "h"},
    "ExtractField$Value": {"field": "name"},
    "Filter": {},
    "Flatten$Value": {},
    "HeaderFrom$Value": {"fields": "id", "headers": "id", "operation": "copy"},
    "HeaderFrom$Value ": {"fields": "id,name,amount", "headers": "id,name,amount", "operation": "move"},
    "HoistField$Value": {"field": "record"},
    "InsertField$Value": {"static.field": "src", "static.value": "bench", "offset.field": "offset"},
    "InsertHeader": {"header": "h2", "value.literal": "x"},
    "MaskField$Value": {"fields": "name,amount"},
    "RegexRouter": {"regex": "(.*)", "replacement": "x-$1"},
    "ReplaceField$Value": {"exclude": "amount", "renames": "name:title"},
    "SetSchemaMetadata$Value": {"schema.name": "Order"},
    "TimestampConverter$Value": {"field": "ts", "target.type": "Timestamp"},
    "TimestampConverter$Value ": {"field": "ts", "target.type": "string", "format": "yyyy-MM-dd'T'HH:mm:ss.SSS"},
    "TimestampConverter$Value  ": {"field": "day", "target.type": "unix", "format": "yyyy-MM-dd"},
    "TimestampConverter$Value   ": {"field": "ts", "target.type": "string", "format": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"},
    "TimestampConverter$Value    ": {"field": "ts", "target.type": "string", "format": "EEE, d MMM yyyy HH:mm:ss z"},
    "TimestampConverter$Value     ": {"field": "zoned", "target.type": "unix", "format": "yyyy-MM-dd'T'HH:mm:ssXXX"},
    "TimestampConverter$Value      ": {"field": "named", "target.type": "unix", "format": "d MMM yyyy"},
    "TimestampRouter": {},
    "ValueToKey": {"fields": "id"},
}
PREDICATES: dict[str, dict[str, str]] = {
    "HasHeaderKey": {"name": "h"},
    "RecordIsTombstone": {},
    "TopicNameMatches": {"pattern": "t.*"},
}

# For the same records, each as the field `record` of another one.
V2 = {"field.syntax.version": "V2"}
PATHS: dict[str, dict[str, str]] = {
    "ExtractField$Value": {"field": "record.name", **V2},
    "HeaderFrom$Value": {"fields": "record.id", "headers": "id", "operation": "copy", **V2},
    "ValueToKey": {"fields": "record.id,record.name", **V2},
}


# For records some of which lack members, or have members of other types.
ODD: dict[str, dict[str, str]] = {
    "Cast$Value": {"spec": "amount:string"},
    "Flatten$Value": {},
    "HeaderFrom$Value": {"fields": "amount", "headers": "amount", "operation": "copy"},
    "MaskField$Value": {"fields": "name,amount"},
    "ReplaceField$Value": {"exclude": "amount", "renames": "name:title"},
    "TimestampConverter$Value": {"field": "ts", "target.type": "string", "format": "yyyy-MM-dd'T'HH:mm:ss.SSS"},
    "ValueToKey": {"fields": "amount"},
}


def batch(*, schema: bool, lacking: int = 0, mixed: int = 0) -> pa.RecordBatch:
    """Flat records of seven fields. `lacking`: each record of this number has only its `id`; 0: none. `mixed`: of each
    such number of records, one has a text for a number.
    """
    payloads = [
        b'{"id":%d,"name":"name-%d","amount":%.2f,"ts":%d,"day":"2023-%02d-%02d","zoned":"2023-11-%02dT22:13:%02d+02:00",'
        b'"named":"%d %b 2023"}'
        % (i, i % 1000, i / 7, 1_700_000_000_000 + i * 997, i % 12 + 1, i % 28 + 1, i % 28 + 1, i % 60, i % 28 + 1,
           (b"Jan", b"may", b"August")[i % 3])
        for i in range(ROWS)
    ]
    if lacking:
        payloads[lacking // 2 :: lacking] = [b'{"id":%d}' % i for i in range(lacking // 2, ROWS, lacking)]
    if mixed:
        payloads[mixed // 2 :: mixed] = [b'{"id":%d,"name":"n","amount":"1.5","ts":null}' % i
                                         for i in range(mixed // 2, ROWS, mixed)]  # fmt: skip
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schema).lower()})
    texts = pa.array([SCHEMA % one if schema else one for one in payloads], pa.binary())
    value, metadata = converter.to_connect("t", texts)
    found = pa.RecordBatch.from_arrays(
        [
            one_topic("t", ROWS), pa.array(np.zeros(ROWS, np.int32)), pa.array(np.arange(ROWS)),
            pa.array(np.arange(ROWS) * 997 + 1_700_000_000_000), pa.nulls(ROWS),
        ],
        names=["topic", "partition", "offset", "timestamp", "key"],
    )  # fmt: skip
    found = put(found, "value", value, metadata)
    return put(found, "headers", pa.array([[("h", b"1")]] * ROWS, HEADERS_TYPE))


def show(name: str, work: Callable[[], int]) -> None:
    sys.stdout.write(f"{name:100} {rate(work):8.2f} M/s\n")
    sys.stdout.flush()


def show_chain(
    plugins: Plugins, said: str, name: str, config: dict[str, str], records: pa.RecordBatch
) -> None:
    chain = make_chain(plugins, {
        "transforms": "t", "transforms.t.type": T + name,
        **{f"transforms.t.{key}": value for key, value in config.items()},
    })  # fmt: skip

    def work() -> int:
        sum(len(out) for out in chain.apply(records))
        return ROWS

    show(f"{said}: {name} {config}", work)


def odd(plugins: Plugins) -> None:
    """Print the table for records some of which lack members, or have members of other types."""
    for said, records in (
        (f"1 of {ROWS} lacks members", batch(schema=False, lacking=ROWS)),
        ("every second lacks members", batch(schema=False, lacking=2)),
        (f"1 of {ROWS} has other types", batch(schema=False, mixed=ROWS)),
        (f"1 of {ROWS} lacks members, 1 has other types", batch(schema=False, lacking=ROWS, mixed=ROWS // 2)),
    ):
        for name, config in ODD.items():
            show_chain(plugins, said, name, config, records)


def main() -> None:
    """Print the table."""
    plugins = Plugins()
    if "--odd" in sys.argv:
        odd(plugins)
        return
    for schema in (False, True):
        records = batch(schema=schema)
        said = "with a schema" if schema else "schemaless"
        for name, config in CHAINS.items():
            if name == "SetSchemaMetadata$Value" and not schema:
                continue
            show_chain(plugins, said, name.strip(), config, records)
        [hoisted] = make_chain(plugins, {"transforms": "t", "transforms.t.type": T + "HoistField$Value",
                                         "transforms.t.field": "record"}).apply(records)
        for name, config in PATHS.items():
            show_chain(plugins, said, name, config, hoisted)
    for name, config in PREDICATES.items():
        predicate = plugins.find(Kind.PREDICATE, f"{T}predicates.{name}").cls()
        predicate.configure(config)
        show(f"{name} {config}", lambda predicate=predicate: len(predicate.test(records)))
    chain = make_chain(plugins, {
        "transforms": "a,b", "transforms.a.type": T + "InsertField$Value", "transforms.a.static.field": "src",
        "transforms.a.static.value": "x", "transforms.a.predicate": "p", "predicates": "p",
        "predicates.p.type": T + "predicates.HasHeaderKey", "predicates.p.name": "h",
        "transforms.b.type": T + "ReplaceField$Value", "transforms.b.exclude": "amount",
    })  # fmt: skip
    show("chain with a predicate", lambda: sum(len(out) for out in chain.apply(records)))
    odd(plugins)


if __name__ == "__main__":
    main()
