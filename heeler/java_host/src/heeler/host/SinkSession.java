package heeler.host;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.runtime.SinkConnectorConfig;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.sink.ErrantRecordReporter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * One sink task. The connection's thread receives the worker's commands and frames. Another thread carries out the commands,
 * converts, transforms and puts the records of the frames, and asks the task which offsets to commit.
 *
 * Commands: open, close, commit, pause, resume, stop. Messages to the worker: "commit" (offsets for the group), "at" (the positions
 * of partitions that the plugin has rewound or paused), "done" (with a frame), "tick" (still processing frames), and frames
 * with records for the dead letter queue.
 *
 * A session may be for a replay of dead letters: another instance of the task, which is no member of the group. What it wants
 * to commit tells the worker which records it has stored.
 */
final class SinkSession extends Session implements SinkContext.Source {
    private static final long TICK_MS = 1000;
    private final Host host;
    private final Connection.Message first;
    private final ConnectorTaskId id;
    private final Map<String, String> own;
    private final int maxPollRecords;
    private final long flushMs;
    private final boolean replay;
    private final SinkPositions places = new SinkPositions();
    private volatile boolean gone; // the worker has closed the connection
    private volatile SinkConversion conversion;
    private volatile ConsumerGroupMetadata group;

    private final ArrayDeque<Connection.Message> commands = new ArrayDeque<>(); // guarded by this
    private final ArrayDeque<Frame> frames = new ArrayDeque<>(); // guarded by this
    private boolean commitRequested; // guarded by this
    private long timeout = -1; // guarded by this

    // Used by the task's thread only.
    private SinkTask task;
    private MetricsSender measures;
    private boolean paused;
    private Frame frame;
    private int row;
    private int written;
    private List<SinkRecord> batch; // the records for put, kept while it has to be repeated
    private final Map<TopicPartition, Long> batchEnds = new HashMap<>();
    private boolean again;
    private long nextPut;
    private long nextCommit;
    private long lastTold;

    SinkSession(Host host, Connection connection, Connection.Message first) throws Exception {
        super(connection);
        this.host = host;
        this.first = first;
        own = first.strings("config");
        maxPollRecords = first.number("maxPollRecords");
        flushMs = first.number("flush");
        replay = Boolean.TRUE.equals(first.content().get("replay"));
        group = new ConsumerGroupMetadata(first.text("group"));
        id = new ConnectorTaskId(first.text("name"), first.number("task"));
        loader = host.plugin(first).loader();
        thread = new Thread(this::run, (replay ? "replay of task " : "task ") + id);
    }

    @Override
    void listen(Connection.Message first) throws Exception {
        thread.start();
        try {
            for (Connection.Message m = connection.read(this::queue); m != null; m = connection.read(this::queue)) {
                if (m.op().equals("letters")) conversion.written(m.number("number"));
                else if (m.op().equals("where")) describeCalls(m);
                else queue(m);
            }
        } finally {
            gone = true;
            if (conversion != null) conversion.giveUp();
            synchronized (this) { notifyAll(); }
            thread.interrupt(); // in case it hangs
        }
    }

    private synchronized void queue(Connection.Message message) {
        commands.add(message);
        if (message.op().equals("stop") && conversion != null) conversion.stopRetries();
        notifyAll();
    }

    private synchronized void queue(Frame records) {
        frames.add(records);
        notifyAll();
    }

    private void run() {
        try (LoaderSwap swap = host.plugins.withClassLoader(loader);
             MetricsSender opened = new MetricsSender(host, "task " + id, Conversion.tags(id), this::event)) {
            measures = opened;
            work();
            tell(Map.of("op", "stopped"));
        } catch (Throwable e) { // plugin code
            if (!gone) failed(e);
        }
    }

    private void work() throws Throwable {
        SinkConnectorConfig config = new SinkConnectorConfig(host.plugins, first.strings("connector"));
        Class<? extends Task> type = Class.forName(own.get("task.class"), true, loader).asSubclass(Task.class);
        SinkTask created = (SinkTask) host.plugins.newTask(type);
        try (SinkConversion opened = new SinkConversion(host, connection, config, id, measures.all)) {
            conversion = opened;
            opened.beforeAttempt = calls::again;
            try {
                created.initialize(new SinkContext(this));
                task = created;
                try (PluginCalls.Call call = calls.of("start")) { created.start(own); }
                tell(Map.of("op", "started", "version", String.valueOf(created.version()), "keeps", keepsOffsets(type)));
                nextCommit = nextPut = now() + flushMs;
                go();
            } finally {
                if (task != null) stop(task);
            }
        }
    }

    /**
     * Whether a task prepares its partitions and decides how far each is committed: such a task usually finds its position in
     * its target, where a second instance would change it.
     */
    private static boolean keepsOffsets(Class<?> type) {
        try {
            return type.getMethod("open", Collection.class).getDeclaringClass() != SinkTask.class
                && type.getMethod("preCommit", Map.class).getDeclaringClass() != SinkTask.class;
        } catch (NoSuchMethodException | LinkageError e) { // other methods of the task have types that are missing
            return true;
        }
    }

    /** Runs until the task is stopped. In any case, what it has received is committed before its partitions are closed. */
    private void go() throws Throwable {
        Throwable failed = null;
        try {
            while (step()) { }
        } catch (Conversion.StoppedException e) {
            System.err.println("[INFO] " + id + " stops before all records are converted; they will be read again");
        } catch (Throwable e) { // plugin code
            failed = e;
            throw e;
        } finally {
            Set<TopicPartition> all = places.all();
            try {
                if (gone && !all.isEmpty()) close(task, all);
                else if (!all.isEmpty()) commit(all, true);
            } catch (Throwable e) { // plugin code
                if (failed == null) throw e;
                failed.addSuppressed(e);
            }
        }
    }

    private boolean step() throws Throwable {
        Connection.Message command = await();
        if (gone || command != null && command.op().equals("stop")) return false;
        if (command != null) {
            execute(command);
            return true;
        }
        if (requested() || now() >= nextCommit) {
            Set<TopicPartition> all = places.all();
            if (!all.isEmpty()) commit(all, false);
            nextCommit = now() + flushMs;
        }
        settle();
        if (busy()) tick();
        if (places.all().isEmpty()) nextPut = nextCommit;
        else if (mayPut()) put();
        return true;
    }

    /** Waits for the worker's next command; null if there is something else to do. */
    private synchronized Connection.Message await() throws InterruptedException {
        while (!gone && commands.isEmpty()) {
            if (timeout > 0) nextPut = Math.min(nextPut, now() + timeout);
            timeout = -1;
            long wait = Math.min(nextCommit, nextPut) - now();
            if (commitRequested || wait <= 0 || mayPut()) return null;
            wait(busy() ? Math.min(wait, TICK_MS) : wait);
            if (busy()) break; // for a tick, without this lock: the thread that reads must not wait for one that writes
        }
        return commands.poll();
    }

    private synchronized boolean busy() {
        return batch != null || frame != null || !frames.isEmpty();
    }

    private synchronized boolean mayPut() {
        return now() >= nextPut || !again && !paused && (frame != null || !frames.isEmpty());
    }

    private synchronized boolean requested() {
        boolean found = commitRequested;
        commitRequested = false;
        return found;
    }

    private void execute(Connection.Message command) throws Exception {
        switch (command.op()) {
            case "open" -> {
                Map<TopicPartition, Long> given = SinkPositions.offsets(command.content().get("places"));
                group = new ConsumerGroupMetadata(
                    first.text("group"), command.number("generation"), command.text("member"), Optional.empty());
                places.open(given);
                if (!given.isEmpty()) try (PluginCalls.Call call = calls.of("open")) { task.open(given.keySet()); }
                settle();
                tell(Map.of("op", "opened"));
            }
            case "close" -> {
                Set<TopicPartition> lost = places.all();
                if (!lost.isEmpty()) {
                    if ((Boolean) command.content().get("lost")) close(task, lost);
                    else commit(lost, true);
                }
                conversion.forget(lost);
                places.close(lost);
                synchronized (this) { frames.clear(); }
                frame = null; // the partitions' next owners get these records
                batch = null;
                again = false;
                tell(Map.of("op", "closed"));
            }
            case "commit" -> requestCommit();
            case "pause", "resume" -> {
                paused = command.op().equals("pause");
                if (paused) requestCommit();
            }
            default -> throw new IOException("unknown message " + command.op());
        }
    }

    /** Calls put with the next records, with none if it is only time to call it, or again with the same ones. */
    private void put() throws Exception {
        if (!again) gather();
        nextPut = nextCommit; // unless the task sets a timeout
        try (PluginCalls.Call call = calls.of("put")) {
            task.put(new ArrayList<>(batch));
            conversion.check();
            again = false;
            batch = null;
            places.took(batchEnds);
        } catch (RetriableException e) {
            System.err.println("[WARN] " + id + " retries put with the same records: " + e);
            again = true;
        }
        settle();
        tick();
        ended();
    }

    /** Takes the next records from the oldest frame that has any. */
    private void gather() throws IOException {
        batch = new ArrayList<>();
        batchEnds.clear();
        Long position;
        while (batchEnds.isEmpty() && !paused && (position = nextFrame()) != null) {
            row = frame.rowFrom(position);
            int end = Math.min(frame.count, row + maxPollRecords);
            while (end < frame.count && frame.offset(end) == frame.offset(end - 1)) end++; // all records made of one are kept together
            try (PluginCalls.Call call = calls.of(PluginCalls.CONVERSION)) {
                for (; row < end; row++, call.again()) {
                    SinkRecord converted = conversion.converted(frame, row);
                    if (converted != null) batch.add(converted);
                    batchEnds.put(frame.place, frame.offset(row) + 1);
                }
            }
            if (frame.cut && row == frame.count) batchEnds.put(frame.place, frame.to); // including records that the worker has dropped
            written += batch.size();
            places.given(frame.place, row < frame.count ? frame.offset(row) : frame.to);
            if (batchEnds.isEmpty()) ended();
        }
    }

    /** The next offset of the partition of the first frame that has it; null if there is none. Another thread may pause it. */
    private Long nextFrame() throws IOException {
        while (true) {
            if (frame == null) {
                synchronized (this) { frame = frames.poll(); }
                if (frame == null) return null;
                row = written = 0;
                if (frame.reset && places.next(frame.place) != null) places.given(frame.place, frame.from);
            }
            Long position = places.next(frame.place);
            if (position != null && row == 0 && frame.from > position) places.mistaken(frame.place);
            if (position != null && frame.from <= position && position < frame.to) return position;
            row = frame.count;
            ended();
        }
    }

    /** Tells the worker if the frame is done. */
    private void ended() throws IOException {
        if (frame == null || row < frame.count || again) return;
        frame = null;
        lastTold = now();
        tell(Map.of("op", "done", "written", written));
    }

    private void tick() throws IOException {
        if (now() - lastTold < TICK_MS) return;
        lastTold = now();
        tell(Map.of("op", "tick"));
    }

    private void settle() throws IOException {
        List<Object> moved = places.settle();
        if (!moved.isEmpty()) tell(Map.of("op", "at", "places", moved));
    }

    private void commit(Collection<TopicPartition> which, boolean closing) throws Exception {
        conversion.awaitReports(which);
        Map<TopicPartition, OffsetAndMetadata> wanted;
        try (PluginCalls.Call call = calls.of("preCommit")) {
            wanted = task.preCommit(places.taken(which));
        } catch (Throwable e) { // plugin code
            System.err.println(
                "[ERROR] " + id + " could not commit offsets" + (closing ? ": " : "; it rewinds to the committed ones: ") + e);
            if (!closing) places.forget(which);
            return;
        } finally {
            if (closing) close(task, which);
        }
        List<Object> offsets = places.committable(which, wanted);
        if (!offsets.isEmpty()) tell(Map.of("op", "commit", "offsets", offsets));
    }

    private static long now() {
        return System.nanoTime() / 1_000_000;
    }

    private void tell(Map<String, ?> fields) throws IOException {
        connection.tell(0, fields);
    }

    // Methods for the task's context.

    @Override
    public Map<String, String> configs() {
        return own;
    }

    @Override
    public SinkPositions places() {
        return places;
    }

    @Override
    public ConsumerGroupMetadata group() {
        if (replay) throw new ConnectException("A task that replays dead letters is no member of the consumer group, so it"
            + " must not commit offsets. This connector commits offsets itself: its dead letters cannot be replayed");
        return group;
    }

    @Override
    public synchronized void timeout(long ms) {
        timeout = ms;
    }

    @Override
    public synchronized void requestCommit() {
        commitRequested = true;
        notifyAll();
    }

    @Override
    public ErrantRecordReporter reporter() {
        return conversion.reporter();
    }

    @Override
    public PluginMetrics metrics() {
        return measures.plugin;
    }
}
