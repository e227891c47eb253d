package heeler.host;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.SinkConnectorConfig;
import org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter;
import org.apache.kafka.connect.runtime.errors.ErrorReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** Sends bad records of a task to the worker, which writes them to the dead letter queue: a frame each, with headers. */
final class DeadLetterSender implements ErrorReporter<ConsumerRecord<byte[], byte[]>> {
    private final Connection connection;
    private final SinkConnectorConfig config;
    private final ConnectorTaskId id;
    private final Columns columns = new Columns();
    // Guarded by `sent`, never by `this`: the thread that reads the connection must not wait for one that writes to it.
    private final ArrayDeque<CompletableFuture<RecordMetadata>> sent = new ArrayDeque<>();
    private int first = 1; // the number of the oldest record in `sent`

    DeadLetterSender(Connection connection, SinkConnectorConfig config, ConnectorTaskId id) {
        this.connection = connection;
        this.config = config;
        this.id = id;
    }

    @Override
    public synchronized Future<RecordMetadata> report(ProcessingContext<ConsumerRecord<byte[], byte[]>> context) {
        ConsumerRecord<byte[], byte[]> record = context.original();
        for (Header header : record.headers()) columns.header(header.key(), header.value());
        if (config.isDlqContextHeadersEnabled()) addContext(context);
        columns.add(config.dlqTopicName(), null, record.timestamp(), record.key(), record.value());
        CompletableFuture<RecordMetadata> written = new CompletableFuture<>();
        int number;
        synchronized (sent) {
            sent.add(written);
            number = first + sent.size() - 1;
        }
        try {
            Map<String, Object> meta = Map.of("topics", columns.topics(), "offsets", List.of(), "more", false);
            connection.write(columns.frame(number, Connection.MAPPER.writeValueAsBytes(meta), false));
        } catch (IOException e) {
            throw new ConnectException("The worker no longer accepts records for the dead letter queue", e);
        } finally {
            columns.clear();
        }
        return written;
    }

    private void addContext(ProcessingContext<ConsumerRecord<byte[], byte[]>> context) {
        ConsumerRecord<byte[], byte[]> record = context.original();
        add(DeadLetterQueueReporter.ERROR_HEADER_ORIG_TOPIC, record.topic());
        add(DeadLetterQueueReporter.ERROR_HEADER_ORIG_PARTITION, String.valueOf(record.partition()));
        add(DeadLetterQueueReporter.ERROR_HEADER_ORIG_OFFSET, String.valueOf(record.offset()));
        LetterContext.describe(id, context, this::add);
    }

    private void add(String name, String text) {
        columns.header(name, LetterContext.bytes(text));
    }

    /** Records up to this number are written. */
    void written(int upTo) {
        while (true) {
            CompletableFuture<RecordMetadata> done;
            synchronized (sent) {
                if (first > upTo || sent.isEmpty()) return;
                first++;
                done = sent.poll();
            }
            done.complete(new RecordMetadata(new TopicPartition(config.dlqTopicName(), 0), -1, 0, -1, -1, -1));
        }
    }

    /** The worker is gone and writes nothing more: fails all that wait for it. */
    void giveUp() {
        synchronized (sent) {
            for (CompletableFuture<RecordMetadata> waiting : sent)
                waiting.completeExceptionally(new ConnectException("The worker has closed its connection to the task"));
            sent.clear();
        }
    }
}
