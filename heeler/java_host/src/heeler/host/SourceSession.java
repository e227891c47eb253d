package heeler.host;

import heeler.host.SourceConversion.Outgoing;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.WorkerTransactionContext;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.source.TransactionContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * One source task. One thread polls, transforms and converts. A second one sends the records that have come in the meantime
 * as a frame, with their offsets. The connection's thread receives the worker's messages: the worker appends a frame,
 * commits it together with its offsets, and then acknowledges it. A third thread then notifies the plugin, which may take
 * long, or need an answer from the worker.
 *
 * The end: "stop" -> the last poll returns, the last frame is sent, "drained" -> the worker commits all of it, "finish" ->
 * the task is stopped, "stopped".
 */
final class SourceSession extends Session {
    private static final int FRAME_BYTES = 4 << 20;
    private static final int MOST_ACKNOWLEDGEMENTS = 100; // a plugin that is slower to commit is not polled
    private static final int SLICE = 500; // records that are converted at once; more would not fit into the CPU's caches
    private final Host host;
    private final Connection.Message first;
    private final ConnectorTaskId id;
    private final List<?> converted; // what the worker converts; null if it runs no part of the chain
    private final WorkerTransactionContext transactions; // null unless the connector defines transaction boundaries
    private final CountDownLatch finish = new CountDownLatch(1);
    private final Thread committer;
    private volatile SourceTask task;
    private volatile SourceConversion conversion;
    private volatile boolean stopping;
    private volatile boolean gone; // the worker has closed the connection
    private volatile Throwable unsent; // why frames cannot be sent
    private boolean paused = true; // until the worker sends "resume"; this and all that follows is guarded by `this`
    private boolean finishing; // the worker has sent "finish", its last message
    private List<Connection.Message> acknowledgements = new ArrayList<>(); // of which the plugin is not notified yet

    private SourceFrame filling;
    private SourceFrame spare;
    private Map<Map<String, ?>, Map<String, ?>> ends = new HashMap<>();
    private List<Sent> sent = new ArrayList<>();
    private boolean midPoll;
    private boolean drained;
    private String signal; // how the transaction ends with the next frame: "commit" or "abort"
    private boolean wantsRecords; // the plugin overrides commitRecord
    private int frames;
    private final ArrayDeque<Map.Entry<Integer, List<Sent>>> unacknowledged = new ArrayDeque<>();

    /** A polled record, and what was sent for it; topic is null if nothing was. */
    private record Sent(SourceRecord record, String topic, long timestamp, int keySize, int valueSize) {
        static Sent of(SourceRecord record, Outgoing sends) {
            return sends == null ? new Sent(record, null, -1, -1, -1)
                : new Sent(record, sends.topic(), sends.timestamp(), size(sends.key()), size(sends.value()));
        }

        private static int size(byte[] bytes) {
            return bytes == null ? -1 : bytes.length;
        }
    }

    SourceSession(Host host, Connection connection, Connection.Message first) throws Exception {
        super(connection);
        this.host = host;
        this.first = first;
        id = new ConnectorTaskId(first.text("name"), first.number("task"));
        loader = host.plugin(first).loader();
        converted = (List<?>) first.content().get("converted");
        filling = new SourceFrame(converted != null);
        spare = new SourceFrame(converted != null);
        transactions = first.content().get("boundaries") == Boolean.TRUE ? new WorkerTransactionContext() : null;
        thread = new Thread(this::run, "task " + id);
        committer = new Thread(this::notifyOfCommits, "commits of task " + id);
    }

    @Override
    List<Thread> threads() {
        return List.of(thread, committer);
    }

    @Override
    void listen(Connection.Message first) throws Exception {
        thread.start();
        committer.start();
        try {
            for (Connection.Message m = connection.read(); m != null; m = connection.read()) {
                switch (m.op()) {
                    case "acknowledge", "finish" -> queue(m);
                    case "pause" -> pause(true);
                    case "resume" -> pause(false);
                    case "stop" -> stop();
                    case "where" -> describeCalls(m);
                    default -> throw new IOException("unknown message " + m.op());
                }
            }
        } finally {
            gone = true;
            stop();
            finish.countDown();
            for (Thread one : threads()) one.interrupt(); // in case it hangs
        }
    }

    private synchronized void queue(Connection.Message message) {
        if (message.op().equals("finish")) finishing = true;
        else acknowledgements.add(message);
        notifyAll();
    }

    private synchronized void pause(boolean on) {
        paused = on;
        notifyAll();
    }

    private void stop() {
        SourceConversion running = conversion;
        if (running != null) running.stopRetries();
        synchronized (this) {
            stopping = true;
            notifyAll();
        }
    }

    private void run() {
        try (LoaderSwap swap = host.plugins.withClassLoader(loader);
             MetricsSender measures = new MetricsSender(host, "task " + id, Conversion.tags(id), this::event)) {
            try {
                work(measures);
            } finally {
                if (task != null) stop(task);
            }
            connection.tell(0, Map.of("op", "stopped"));
        } catch (Throwable e) { // plugin code
            failed(e);
        }
    }

    private void work(MetricsSender measures) throws Throwable {
        SourceConnectorConfig config = new SourceConnectorConfig(host.plugins, first.strings("connector"), false);
        Map<String, String> own = first.strings("config");
        Class<? extends Task> type = Class.forName(own.get("task.class"), true, loader).asSubclass(Task.class);
        SourceTask created = (SourceTask) host.plugins.newTask(type);
        wantsRecords = created.getClass().getMethod("commitRecord", SourceRecord.class, RecordMetadata.class)
            .getDeclaringClass() != SourceTask.class;
        try (SourceConversion opened = new SourceConversion(host, config, id, measures.all, converted,
                (Map<?, ?>) first.content().get("letters"))) {
            conversion = opened;
            opened.beforeAttempt = calls::again;
            CommittedOffsets offsets = new CommittedOffsets(connection);
            created.initialize(new SourceTaskContext() {
                @Override public Map<String, String> configs() { return own; }
                @Override public OffsetStorageReader offsetStorageReader() { return offsets; }
                @Override public PluginMetrics pluginMetrics() { return measures.plugin; }
                @Override public TransactionContext transactionContext() { return transactions; }
            });
            task = created;
            try (PluginCalls.Call call = calls.of("start")) { created.start(own); }
            connection.tell(0, Map.of("op", "started", "version", String.valueOf(created.version())));
            Thread writer = new Thread(this::write, "writer " + id);
            writer.setDaemon(true);
            writer.start();
            try {
                while (!stopping) if (mayPoll()) poll(opened);
                endAsAsked();
            } catch (Conversion.StoppedException e) {
                System.err.println("[INFO] " + id + " stops before all polled records are converted; they will be polled again");
            } finally {
                synchronized (this) { drained = true; notifyAll(); }
                writer.join();
            }
            if (unsent != null) throw unsent;
            connection.tell(0, Map.of("op", "drained"));
            finish.await();
        } catch (InterruptedException e) {
            if (!gone) throw e;
        }
    }

    private synchronized boolean mayPoll() throws InterruptedException {
        while ((paused || acknowledgements.size() > MOST_ACKNOWLEDGEMENTS) && !stopping) wait();
        return !stopping;
    }

    private void poll(SourceConversion conversion) throws InterruptedException {
        List<SourceRecord> records = polled();
        for (Iterator<SourceRecord> rest = records.iterator(); rest.hasNext();) take(conversion, rest);
        endAsAsked();
    }

    private List<SourceRecord> polled() throws InterruptedException {
        try (PluginCalls.Call call = calls.of(PluginCalls.POLL)) {
            List<SourceRecord> records = task.poll();
            return records == null ? List.of() : records;
        } catch (org.apache.kafka.connect.errors.RetriableException | org.apache.kafka.common.errors.RetriableException e) {
            System.err.println("[WARN] " + id + " failed to poll records; it retries: " + e);
            return List.of();
        }
    }

    /** Ends the transaction if the plugin has asked for it since the last poll, also in one without records. */
    private void endAsAsked() throws InterruptedException {
        if (transactions != null) end(asked(transactions.shouldAbortBatch(), transactions.shouldCommitBatch()));
    }

    /** What the plugin wants to do with the transaction now; null if nothing. */
    private static String asked(boolean abort, boolean commit) {
        return abort ? "abort" : commit ? "commit" : null;
    }

    /** The transaction ends here, so the frame ends too. */
    private synchronized void end(String how) throws InterruptedException {
        if (how == null) return;
        signal = how;
        notifyAll();
        while (signal != null && sends()) wait();
    }

    /** Converts and adds the next records: not many, and not many more bytes than a frame has, if they are large. */
    private void take(SourceConversion conversion, Iterator<SourceRecord> rest) throws InterruptedException {
        List<SourceRecord> records = new ArrayList<>(SLICE);
        List<Outgoing> converted = new ArrayList<>(SLICE);
        List<SourceLetters.Letter> letters = new ArrayList<>(SLICE);
        long size = 0;
        try (PluginCalls.Call call = calls.of(PluginCalls.CONVERSION)) {
            while (rest.hasNext() && records.size() < SLICE && size <= FRAME_BYTES) {
                records.add(rest.next());
                Outgoing sends = conversion.converted(records.get(records.size() - 1));
                converted.add(sends);
                SourceLetters.Letter letter = conversion.letter();
                letters.add(letter);
                if (sends != null) size += sends.size();
                if (letter != null) size += letter.size();
                call.again();
            }
        } finally {
            if (converted.size() < records.size()) letters.add(conversion.letter()); // of the record that fails the task
            add(records, converted, letters, rest.hasNext() || converted.size() < records.size());
        }
    }

    /** Adds records with the results of their conversion, as far as there are any, and their letters; null for none. */
    private synchronized void add(List<SourceRecord> records, List<Outgoing> results, List<SourceLetters.Letter> letters,
                                  boolean more) throws InterruptedException {
        SourceLetters.Letter last = letters.size() > results.size() ? letters.get(results.size()) : null;
        if (results.isEmpty() && last == null) return;
        boolean part = more && transactions == null; // the connector's own transactions may end in the middle of a poll
        // A part of a poll that may turn out to be incomplete goes into frames without earlier polls.
        while ((filling.size() > FRAME_BYTES || part && !midPoll && !(ends.isEmpty() && filling.count() == 0)) && sends()) wait();
        for (int i = 0; i < results.size(); i++) {
            SourceRecord record = records.get(i);
            Outgoing sends = results.get(i);
            if (sends != null) filling.add(sends);
            if (letters.get(i) != null) filling.add(letters.get(i));
            if (record.sourcePartition() != null) ends.put(record.sourcePartition(), record.sourceOffset()); // null removes it
            if (wantsRecords) sent.add(Sent.of(record, sends));
            if (transactions != null) end(asked(transactions.shouldAbortOn(record), transactions.shouldCommitOn(record)));
        }
        if (last != null) filling.add(last);
        midPoll = part;
        notifyAll();
    }

    private boolean sends() {
        return !gone && unsent == null;
    }

    private void write() {
        try {
            while (true) {
                SourceFrame full;
                Map<String, Object> meta = new HashMap<>();
                int number;
                Map<Map<String, ?>, Map<String, ?>> upTo;
                synchronized (this) {
                    while (!drained && signal == null && (ends.isEmpty() && filling.count() == 0 || midPoll && filling.size() <= FRAME_BYTES))
                        wait();
                    if (ends.isEmpty() && filling.count() == 0 && signal == null) return;
                    full = filling;
                    filling = spare;
                    upTo = ends;
                    ends = new HashMap<>();
                    number = ++frames;
                    meta.put("signal", signal);
                    signal = null;
                    meta.put("more", midPoll); // the rest of what one poll returned comes in the next frame
                    if (wantsRecords) {
                        unacknowledged.add(Map.entry(number, sent));
                        sent = new ArrayList<>();
                    }
                    notifyAll();
                }
                List<List<String>> pairs = new ArrayList<>();
                upTo.forEach((partition, offset) -> pairs.add(List.of(CommittedOffsets.text(partition), CommittedOffsets.text(offset))));
                meta.put("offsets", pairs);
                meta.put("wanted", wantsRecords);
                full.send(connection, number, meta);
                synchronized (this) { spare = full; }
            }
        } catch (Throwable e) {
            unsent = e; // for example an offset that JSON cannot represent
            stop();
        }
    }

    private void notifyOfCommits() {
        try (LoaderSwap swap = host.plugins.withClassLoader(loader)) {
            for (List<Connection.Message> all = acknowledged(); !all.isEmpty(); all = acknowledged()) acknowledge(all);
        } catch (InterruptedException e) {
            // The worker has closed the connection.
        } finally {
            finish.countDown();
        }
    }

    /** Waits for acknowledgements and returns all that have come; none at the end. */
    private synchronized List<Connection.Message> acknowledged() throws InterruptedException {
        while (acknowledgements.isEmpty() && !finishing && !gone) wait();
        List<Connection.Message> all = gone ? List.of() : acknowledgements;
        acknowledgements = new ArrayList<>();
        notifyAll();
        return all;
    }

    /** All frames up to those of the messages, and their offsets, are committed. */
    private void acknowledge(List<Connection.Message> messages) {
        int frame = 0;
        Map<Integer, Placed> placed = new HashMap<>();
        for (Connection.Message message : messages) {
            frame = Math.max(frame, message.number("frame"));
            placed.putAll(Placed.of(message));
        }
        while (!gone) {
            Map.Entry<Integer, List<Sent>> done;
            synchronized (this) {
                if (unacknowledged.isEmpty() || unacknowledged.peek().getKey() > frame) break;
                done = unacknowledged.poll();
            }
            Placed where = placed.get(done.getKey());
            int row = 0;
            for (Sent one : done.getValue()) {
                RecordMetadata metadata = one.topic() == null ? null : metadata(one, where, row++);
                notify("commitRecord", task -> task.commitRecord(one.record(), metadata));
            }
        }
        notify("commit", SourceTask::commit);
    }

    /** A call of a method of the plugin. */
    private interface Call {
        void of(SourceTask task) throws Exception;
    }

    private void notify(String method, Call call) {
        if (gone) return; // the task may be stopped already
        try (PluginCalls.Call running = calls.of(method)) {
            call.of(task);
        } catch (Throwable e) { // plugin code; Java's worker only logs it, too
            System.err.println("[ERROR] " + id + " failed in " + method + ": " + e);
        }
    }

    /** Null if the worker's part of the chain has dropped the record, or it could not be written and this is tolerated. */
    private static RecordMetadata metadata(Sent one, Placed where, int row) {
        String topic = where.topics() == null ? one.topic() : where.topics().get(row);
        if (topic == null || where.partitions().get(row) == Placed.REFUSED) return null;
        TopicPartition partition = new TopicPartition(topic, where.partitions().get(row));
        long offset = where.offsets().get(row);
        return new RecordMetadata(partition, offset, 0, one.timestamp(), one.keySize(), one.valueSize());
    }
}
