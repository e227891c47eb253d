package heeler.host;

import heeler.host.SourceConversion.Outgoing;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.runtime.SinkConnectorConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Java's part of the chain of a Python connector. An executor sends frames of records. The response to each is a frame
 * with the resulting records, the rows that they come from, and the errors of other rows. The executor names the lease of its
 * task.
 */
final class ChainSession extends Session {
    private static final AtomicInteger CHAINS = new AtomicInteger();
    final String lease;
    private final int chain = CHAINS.incrementAndGet();
    private final Host host;
    private final Connection.Message first;
    private final ConnectorTaskId id;
    private final List<?> converted; // which of "key" and "value" Java converts
    private final BoundaryValues values = new BoundaryValues();
    private final Columns out = new Columns();
    private final BlockingQueue<Frame> frames = new LinkedBlockingQueue<>();
    private final List<Object> errors = new ArrayList<>(); // of the current frame
    private int row;
    private volatile Runnable stopRetries = () -> { };
    private volatile boolean gone;

    ChainSession(Host host, Connection connection, Connection.Message first) {
        super(connection);
        this.host = host;
        this.first = first;
        lease = first.text("lease");
        id = new ConnectorTaskId(first.text("name"), first.number("task"));
        converted = (List<?>) first.content().get("converted");
        thread = new Thread(this::run, "chain of " + id);
    }

    @Override
    void listen(Connection.Message first) throws IOException {
        thread.start();
        try {
            while (connection.read(frames::add) != null) { }
        } finally {
            gone = true;
            stopRetries.run();
            thread.interrupt(); // in case it hangs
            measured(Map.of("op", "chainEnded"));
        }
    }

    private void run() {
        try (MetricsSender measures = new MetricsSender(host, "chain of " + id, Conversion.tags(id), this::measured)) {
            if (first.text("kind").equals("sink")) sink(measures);
            else source(measures);
        } catch (Throwable e) { // plugin code
            if (!gone) failed(e);
        }
    }

    /** The worker is told through the task's lease: executors hold the connections, perhaps several for one task. */
    private void measured(Map<String, ?> values) {
        Map<String, Object> fields = new HashMap<>(values);
        fields.put("chain", chain);
        host.leases(lease).forEach(task -> task.event(fields));
    }

    private void sink(MetricsSender measures) throws Exception {
        SinkConnectorConfig config = new SinkConnectorConfig(host.plugins, first.strings("connector"));
        try (SinkConversion conversion = new SinkConversion(host, config, id, measures.all, this::refuse)) {
            serve(conversion, frame -> sink(frame, conversion));
        }
    }

    private boolean sink(Frame frame, SinkConversion conversion) throws IOException {
        SinkRecord record = conversion.converted(frame, row);
        if (record == null) return false;
        try {
            Headers headers = conversion.written(record);
            byte[] key = handed("key", record.keySchema(), record.key());
            byte[] value = handed("value", record.valueSchema(), record.value());
            out.schemas(hands("key") ? values.text(record.keySchema()) : null,
                hands("value") ? values.text(record.valueSchema()) : null);
            for (Header one : headers) out.header(one.key(), one.value());
            out.add(record.topic(), record.kafkaPartition(), record.timestamp(), key, value);
            return true;
        } catch (DataException e) { // a transform's result does not fit its schema
            refuse(e, Stage.TRANSFORMATION, getClass());
            return false;
        }
    }

    private boolean hands(String part) {
        return converted.contains(part);
    }

    private byte[] handed(String part, Schema schema, Object value) {
        return hands(part) ? values.written(schema, value) : (byte[]) value; // a ByteArrayConverter's
    }

    private void source(MetricsSender measures) throws Exception {
        SourceConnectorConfig config = new SourceConnectorConfig(host.plugins, first.strings("connector"), false);
        try (SourceConversion conversion = new SourceConversion(host, config, id, measures.all, this::refuse)) {
            serve(conversion, frame -> source(frame, conversion));
        }
    }

    private boolean source(Frame frame, SourceConversion conversion) throws IOException {
        SourceRecord given;
        try {
            given = taken(frame, conversion);
        } catch (Exception e) { // plugin code
            refuse(e, Stage.HEADER_CONVERTER, conversion.headerConverter.getClass());
            return false;
        }
        Outgoing sends = conversion.converted(given);
        if (sends == null) return false;
        out.schemas(null, null);
        for (Header one : sends.headers()) out.header(one.key(), one.value());
        out.add(sends.topic(), sends.partition(), sends.timestamp(), sends.key(), sends.value());
        return true;
    }

    /** Processes the record at `row` of a frame; false if nothing is sent for it. */
    private interface RecordWork {
        boolean sent(Frame frame) throws IOException;
    }

    /** Processes one frame after another until the connection ends. */
    private void serve(Conversion<?, ?> conversion, RecordWork work) throws Exception {
        stopRetries = conversion::stopRetries;
        conversion.keepsBytes = true;
        while (true) {
            Frame frame = frames.take();
            List<Integer> rows = new ArrayList<>();
            for (row = 0; row < frame.count; row++) if (work.sent(frame)) rows.add(row);
            respond(rows);
        }
    }

    private SourceRecord taken(Frame frame, SourceConversion conversion) {
        ConsumerRecord<byte[], byte[]> given = frame.given(row);
        SchemaAndValue key = taken(frame, "key", given.key());
        SchemaAndValue value = taken(frame, "value", given.value());
        return new SourceRecord(null, null, given.topic(), given.partition() < 0 ? null : given.partition(), key.schema(),
            key.value(), value.schema(), value.value(), given.timestamp() < 0 ? null : given.timestamp(), conversion.headers(given));
    }

    private SchemaAndValue taken(Frame frame, String part, byte[] bytes) {
        return frame.json(part) ? values.read(frame.schema(part), bytes) : new SchemaAndValue(Schema.OPTIONAL_BYTES_SCHEMA, bytes);
    }

    /** All errors are tolerated here: the executor knows the connector's errors.tolerance. */
    private <T> Future<RecordMetadata> refuse(ProcessingContext<T> context) {
        refuse(context.error(), context.stage(), context.executingClass());
        return CompletableFuture.completedFuture(null);
    }

    private void refuse(Throwable error, Stage stage, Class<?> executing) {
        Map<String, Object> fields = new HashMap<>(Host.failure(error));
        fields.put("row", row);
        fields.put("stage", stage.name());
        fields.put("executing", executing.getName());
        errors.add(fields);
    }

    private void respond(List<Integer> rows) throws IOException {
        Map<String, Object> meta = Map.of("topics", out.topics(), "schemas", out.schemas(), "offsets", List.of(), "more", false,
            "rows", rows, "errors", errors);
        connection.write(out.frame(1, Connection.MAPPER.writeValueAsBytes(meta), true));
        out.clear();
        errors.clear();
    }
}
