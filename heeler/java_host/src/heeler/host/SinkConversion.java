package heeler.host;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.data.SchemaAndValue;
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
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.util.ConnectUtils;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** A sink task's converters and transforms, under Kafka's own handling of errors; what is reported of bad records. */
final class SinkConversion extends Conversion<ConsumerRecord<byte[], byte[]>, SinkRecord> {
    private final WorkerErrantRecordReporter reporter; // null where bad records are told to nobody
    private final Letters letters; // null where somebody else has them
    private final CutValues values = new CutValues();

    SinkConversion(Host host, Connection connection, SinkConnectorConfig config, ConnectorTaskId id, ConnectMetrics measured) {
        super(host, config, id, measured, config.errorToleranceType());
        letters = new Letters(connection, config, id);
        List<ErrorReporter<ConsumerRecord<byte[], byte[]>>> reporters = new ArrayList<>();
        reporters.add(new LogReporter.Sink(id, config, metrics));
        if (!config.dlqTopicName().isEmpty()) reporters.add(letters);
        operator.reporters(reporters);
        reporter = config.enableErrantRecordReporter()
            ? new WorkerErrantRecordReporter(operator, keyConverter, valueConverter, headerConverter) : null;
    }

    /** Of a connector in Python: bad records are left out, and told to `bad` alone. */
    SinkConversion(Host host, SinkConnectorConfig config, ConnectorTaskId id, ConnectMetrics measured,
                   ErrorReporter<ConsumerRecord<byte[], byte[]>> bad) {
        super(host, config, id, measured, ToleranceType.ALL);
        operator.reporters(List.of(bad));
        letters = null;
        reporter = null;
    }

    /** The frame's record for the task; null where a transform has dropped it, or it is bad and may be left out. */
    SinkRecord converted(Frame frame, int row) {
        ConsumerRecord<byte[], byte[]> original = frame.record(row);
        ConsumerRecord<byte[], byte[]> record = frame.cut ? frame.given(row) : original;
        ProcessingContext<ConsumerRecord<byte[], byte[]>> context = new ProcessingContext<>(original);
        SchemaAndValue key = operator.execute(context, () -> connect(frame, "key", keyConverter, record, record.key()),
            Stage.KEY_CONVERTER, keyConverter.getClass());
        SchemaAndValue value = operator.execute(context, () -> connect(frame, "value", valueConverter, record, record.value()),
            Stage.VALUE_CONVERTER, valueConverter.getClass());
        ConnectHeaders headers = operator.execute(context, () -> headers(record), Stage.HEADER_CONVERTER,
            headerConverter.getClass());
        if (context.failed()) return null;
        Long time = ConnectUtils.checkAndConvertTimestamp(record.timestamp());
        SinkRecord whole = new SinkRecord(original.topic(), original.partition(), key.schema(), key.value(), value.schema(),
            value.value(), original.offset(), time, record.timestampType(), headers);
        if (frame.cut) // it has its first topic and partition too (KIP-793)
            whole = whole.newRecord(record.topic(), record.partition(), key.schema(), key.value(), value.schema(),
                value.value(), time, headers);
        SinkRecord transformed = chain.apply(context, whole);
        return transformed == null || context.failed() ? null : new InternalSinkRecord(context, transformed);
    }

    /** Of a record's key or value, what its converter reads, or what the worker has read. */
    private SchemaAndValue connect(Frame frame, String part, Converter own, ConsumerRecord<byte[], byte[]> record, byte[] bytes) {
        return frame.json(part) ? values.read(frame.schema(part), bytes)
            : own.toConnectData(record.topic(), record.headers(), bytes);
    }

    ErrantRecordReporter reporter() {
        return reporter;
    }

    /** Throws what became of reports that nobody has waited for. */
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
