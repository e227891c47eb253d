package heeler.host;

import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.errors.ErrorReporter;
import org.apache.kafka.connect.runtime.errors.LogReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.runtime.errors.ToleranceType;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.util.ConnectUtils;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** A source task's transforms and converters, with Kafka Connect's own error handling if the connector configures any. */
final class SourceConversion extends Conversion<SourceRecord, SourceRecord> {
    private final boolean direct; // without the operator, which is used five times for each record: the first error fails the task
    private final List<?> converted; // which of "key" and "value" the worker converts, from JSON; null if it runs no part of the chain
    private final BoundaryValues cut = new BoundaryValues();
    private final SourceLetters letters; // null without a dead letter queue, and for a connector in Python

    /** A record for Kafka, or for the worker's part of the chain, then with its schemas as JSON. */
    record Outgoing(String topic, Integer partition, long timestamp, RecordHeaders headers, byte[] key, byte[] value,
                    String keySchema, String valueSchema) {
        /** The bytes of key and value. */
        long size() {
            return (key == null ? 0L : key.length) + (value == null ? 0L : value.length);
        }
    }

    /** `queue`: see SourceLetters; null without a dead letter queue. */
    SourceConversion(Host host, SourceConnectorConfig config, ConnectorTaskId id, ConnectMetrics measured, List<?> converted,
                     Map<?, ?> queue) {
        super(host, config, id, measured, config.errorToleranceType());
        this.converted = converted;
        letters = queue == null ? null : new SourceLetters(queue, id, this);
        ErrorReporter<SourceRecord> log = new LogReporter.Source(id, config, metrics);
        reportTo(letters == null ? List.of(log) : List.of(log, letters));
        direct = config.errorToleranceType() == ToleranceType.NONE && config.errorRetryTimeout() == 0
            && !config.enableErrorLog() && letters == null;
    }

    /** For a connector in Python: bad records are left out and reported to `bad` only. */
    SourceConversion(Host host, SourceConnectorConfig config, ConnectorTaskId id, ConnectMetrics measured,
                     ErrorReporter<SourceRecord> bad) {
        super(host, config, id, measured, ToleranceType.ALL);
        converted = null;
        letters = null;
        reportTo(List.of(bad));
        direct = false;
    }

    /** The record to send; null if a transform has dropped it, or it is bad and tolerated. Throws StoppedException. */
    Outgoing converted(SourceRecord before) {
        if (direct) {
            SourceRecord after;
            RecordHeaders headers;
            byte[] key, value;
            try {
                after = transform(before);
                if (after == null) return null;
                headers = written(after);
                key = key(after, headers);
                value = value(after, headers);
            } catch (Exception e) { // plugin code
                throw new ConnectException("Tolerance exceeded in error handler", e);
            }
            return outgoing(after, headers, key, value);
        }
        ProcessingContext<SourceRecord> context = new ProcessingContext<>(before);
        SourceRecord after = chain.apply(context, before);
        if (failed(context) || after == null) return null;
        // Converters may add headers, so these come first.
        RecordHeaders headers = watched(context, Stage.HEADER_CONVERTER, headerConverter, () -> written(after));
        byte[] key = watched(context, Stage.KEY_CONVERTER, keys.converter, () -> key(after, headers));
        byte[] value = watched(context, Stage.VALUE_CONVERTER, values.converter, () -> value(after, headers));
        return failed(context) ? null : outgoing(after, headers, key, value);
    }

    /** Takes the dead letter of the record that was converted last; null if it has none. */
    SourceLetters.Letter letter() {
        return letters == null ? null : letters.taken();
    }

    private <T> T watched(ProcessingContext<SourceRecord> context, Stage stage, Object plugin, Callable<T> work) {
        return operator.execute(context, work::call, stage, plugin.getClass());
    }

    private Outgoing outgoing(SourceRecord record, RecordHeaders headers, byte[] key, byte[] value) {
        if (record.topic() == null) throw new DataException("the source record has no topic");
        if (record.kafkaPartition() != null && record.kafkaPartition() < 0)
            throw new DataException("a record for topic " + record.topic() + " has the invalid partition " + record.kafkaPartition());
        Long known = ConnectUtils.checkAndConvertTimestamp(record.timestamp()); // -1 means none
        long at = known == null ? System.currentTimeMillis() : known;
        return new Outgoing(record.topic(), record.kafkaPartition(), at, headers, key, value,
            hands("key") ? cut.text(record.keySchema()) : null, hands("value") ? cut.text(record.valueSchema()) : null);
    }

    private boolean hands(String part) {
        return converted != null && converted.contains(part);
    }

    private byte[] key(SourceRecord record, RecordHeaders headers) {
        if (hands("key")) return cut.written(record.keySchema(), record.key());
        return keys.kafka(record.topic(), headers, record.keySchema(), record.key());
    }

    private byte[] value(SourceRecord record, RecordHeaders headers) {
        if (hands("value")) return cut.written(record.valueSchema(), record.value());
        return values.kafka(record.topic(), headers, record.valueSchema(), record.value());
    }
}
