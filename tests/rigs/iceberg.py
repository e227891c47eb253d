"""Iceberg's sink: its jars, and the table that it writes."""

from __future__ import annotations

ICEBERG, HADOOP = "1.12.0", "3.4.1"
NEEDED = (f"org.apache.iceberg:iceberg-parquet:{ICEBERG}", f"org.apache.hadoop:hadoop-client-runtime:{HADOOP}",
          f"org.apache.hadoop:hadoop-client-api:{HADOOP}")


def rows(warehouse):
    """Of the newest snapshot."""
    from pyiceberg.table import StaticTable

    found = sorted(warehouse.glob("shop/orders/metadata/v*.metadata.json"), key=lambda f: int(f.name[1:].split(".")[0]))
    if not found:
        return []
    return sorted(StaticTable.from_metadata(str(found[-1])).scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def orders(first, count):
    return [{"id": n, "item": f"item {n}", "amount": n / 4} for n in range(first, first + count)]
