package heeler.host;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.InternalSinkRecord;
import org.apache.kafka.connect.runtime.SinkConnectorConfig;
import org.apache.kafka.connect.runtime.errors.ErrorReporter;
import org.apache.kafka.connect.runtime.errors.LogReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.runtime.errors.ToleranceType;
import org.apache.kafka.connect.runtime.errors.WorkerErrantRecordReporter;
import org.apache.kafka.connect.sink.ErrantRecordReporter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.util.ConnectUtils;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** A sink task's converters and transforms, with Kafka Connect's own error handling and reports of bad records. */
final class SinkConversion extends Conversion<ConsumerRecord<byte[], byte[]>, SinkRecord> {
    private final WorkerErrantRecordReporter reporter; // null if errors are not tolerated and there is no dead letter queue
    private final boolean direct; // without the operator, which is used for each part of each record: the first error fails the task
    private final DeadLetterSender letters; // null for a connector in Python
    private final BoundaryValues cut = new BoundaryValues();

    SinkConversion(Host host, Connection connection, SinkConnectorConfig config, ConnectorTaskId id, ConnectMetrics measured) {
        super(host, config, id, measured, config.errorToleranceType());
        letters = new DeadLetterSender(connection, config, id);
        List<ErrorReporter<ConsumerRecord<byte[], byte[]>>> reporters = new ArrayList<>();
        reporters.add(new LogReporter.Sink(id, config, metrics));
        if (!config.dlqTopicName().isEmpty()) reporters.add(letters);
        reportTo(reporters);
        reporter = config.enableErrantRecordReporter()
            ? new WorkerErrantRecordReporter(operator, keys.converter, values.converter, headerConverter) : null;
        direct = reporter == null && config.errorToleranceType() == ToleranceType.NONE && config.errorRetryTimeout() == 0;
    }

    /** For a connector in Python: bad records are left out and reported to `bad` only. */
    SinkConversion(Host host, SinkConnectorConfig config, ConnectorTaskId id, ConnectMetrics measured,
                   ErrorReporter<ConsumerRecord<byte[], byte[]>> bad) {
        super(host, config, id, measured, ToleranceType.ALL);
        reportTo(List.of(bad));
        letters = null;
        reporter = null;
        direct = false;
    }

    /** The record for the task; null if a transform has dropped it, or it is bad and tolerated. Throws StoppedException. */
    SinkRecord converted(Frame frame, int row) {
        ConsumerRecord<byte[], byte[]> original = frame.record(row);
        ConsumerRecord<byte[], byte[]> record = frame.cut ? frame.given(row) : original;
        if (direct) {
            try {
                return transform(whole(frame, original, record, connect(frame, "key", keys, record, record.key()),
                    connect(frame, "value", values, record, record.value()), headers(record)));
            } catch (Exception e) { // plugin code
                throw new ConnectException("Tolerance exceeded in error handler", e);
            }
        }
        ProcessingContext<ConsumerRecord<byte[], byte[]>> context = new ProcessingContext<>(original);
        SchemaAndValue key = operator.execute(context, () -> connect(frame, "key", keys, record, record.key()),
            Stage.KEY_CONVERTER, keys.converter.getClass());
        SchemaAndValue value = operator.execute(context, () -> connect(frame, "value", values, record, record.value()),
            Stage.VALUE_CONVERTER, values.converter.getClass());
        ConnectHeaders headers = operator.execute(context, () -> headers(record), Stage.HEADER_CONVERTER,
            headerConverter.getClass());
        if (failed(context)) return null;
        SinkRecord transformed = chain.apply(context, whole(frame, original, record, key, value, headers));
        return failed(context) || transformed == null ? null : new InternalSinkRecord(context, transformed);
    }

    /** The record for the transforms. If the worker had a part of the chain, it keeps its original topic and partition too (KIP-793). */
    private static SinkRecord whole(Frame frame, ConsumerRecord<byte[], byte[]> original, ConsumerRecord<byte[], byte[]> record,
                                    SchemaAndValue key, SchemaAndValue value, ConnectHeaders headers) {
        Long time = ConnectUtils.checkAndConvertTimestamp(record.timestamp());
        SinkRecord whole = new SinkRecord(original.topic(), original.partition(), key.schema(), key.value(), value.schema(),
            value.value(), original.offset(), time, record.timestampType(), headers);
        return frame.cut ? whole.newRecord(record.topic(), record.partition(), key.schema(), key.value(), value.schema(),
            value.value(), time, headers) : whole;
    }

    /** A record's key or value, from its converter, or from the worker if that has converted it. */
    private SchemaAndValue connect(Frame frame, String part, JsonCodec own, ConsumerRecord<byte[], byte[]> record, byte[] bytes) {
        return frame.json(part) ? cut.read(frame.schema(part), bytes)
            : own.connect(record.topic(), record.headers(), bytes);
    }

    ErrantRecordReporter reporter() {
        return reporter;
    }

    /** Throws the error of a report that the task has not waited for. */
    void check() {
        if (reporter != null) reporter.maybeThrowAsyncError();
    }

    void awaitReports(Collection<TopicPartition> places) {
        if (reporter != null) reporter.awaitFutures(places);
    }

    void forget(Collection<TopicPartition> places) {
        if (reporter != null) reporter.cancelFutures(places);
    }

    void written(int letter) {
        letters.written(letter);
    }

    void giveUp() {
        letters.giveUp();
        stopRetries();
    }
}
