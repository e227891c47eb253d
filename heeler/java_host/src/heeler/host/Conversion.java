package heeler.host;

import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.TransformationChain;
import org.apache.kafka.connect.runtime.TransformationStage;
import org.apache.kafka.connect.runtime.errors.ErrorHandlingMetrics;
import org.apache.kafka.connect.runtime.errors.ErrorReporter;
import org.apache.kafka.connect.runtime.errors.Operation;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.RetryWithToleranceOperator;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.runtime.errors.ToleranceType;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * A task's converters and transforms, with Kafka Connect's own error handling, for records of type T. The configuration here
 * contains the worker's converters if the connector names none.
 */
abstract class Conversion<T, R extends ConnectRecord<R>> implements AutoCloseable {
    final JsonCodec keys;
    final JsonCodec values;
    final HeaderConverter headerConverter;
    final ErrorHandlingMetrics metrics;
    final RetryWithToleranceOperator<T> operator; // see reportTo
    final TransformationChain<T, R> chain;
    boolean keepsBytes; // headers are both read and written here, and strings that no transform has changed keep their bytes
    private final List<TransformationStage<R>> stages;
    private final Map<Object, byte[]> read = new IdentityHashMap<>();
    private final List<Plugin<?>> owned; // the converters, with their metrics
    private volatile boolean stopping;
    Runnable beforeAttempt = () -> { }; // called before each attempt if there may be several

    /** A record was not converted because retries ended with the task, so it is not processed: it will be read again. */
    static final class StoppedException extends RuntimeException { }

    Conversion(Host host, ConnectorConfig config, ConnectorTaskId id, ConnectMetrics measured, ToleranceType tolerated) {
        Plugin<Converter> key = measured.wrap(converter(host, config, "key.converter"), id, true);
        Plugin<Converter> value = measured.wrap(converter(host, config, "value.converter"), id, false);
        HeaderConverter named = host.plugins.newHeaderConverter(
            config, "header.converter", ConnectorConfig.HEADER_CONVERTER_VERSION_CONFIG);
        Plugin<HeaderConverter> lists = measured.wrap(named != null ? named : new SimpleHeaderConverter(), id);
        keys = new JsonCodec(key.get(), config.originalsWithPrefix("key.converter."));
        values = new JsonCodec(value.get(), config.originalsWithPrefix("value.converter."));
        headerConverter = lists.get();
        owned = List.of(key, value, lists);
        stages = config.transformationStages(host.plugins, id, measured);
        metrics = new ErrorHandlingMetrics(id, measured);
        boolean retries = config.errorRetryTimeout() != 0;
        operator = new RetryWithToleranceOperator<>(config.errorRetryTimeout(), config.errorMaxDelayInMillis(), tolerated,
            Time.SYSTEM, metrics) {
            @Override
            protected <V> V execAndRetry(ProcessingContext<T> context, Operation<V> operation) throws Exception {
                return super.execAndRetry(context, !retries ? operation : () -> {
                    beforeAttempt.run();
                    return operation.call();
                });
            }
        };
        chain = new TransformationChain<>(stages, operator);
    }

    private static Converter converter(Host host, ConnectorConfig config, String name) {
        Converter found = host.plugins.newConverter(config, name, name + ".plugin.version");
        if (found == null) throw new ConnectException("Missing required configuration \"" + name + "\"");
        return found;
    }

    /** The tags of a task's metrics. */
    static Map<String, String> tags(ConnectorTaskId id) {
        return MetricsSender.tags("connector", id.connector(), "task", String.valueOf(id.task()));
    }

    /** The record after all transforms; null if one has dropped it. */
    R transform(R record) {
        for (int i = 0; i < stages.size() && record != null; i++) record = stages.get(i).apply(record);
        return record;
    }

    /** Connect's headers from Kafka's. */
    ConnectHeaders headers(ConsumerRecord<byte[], byte[]> record) {
        read.clear();
        ConnectHeaders found = new ConnectHeaders();
        for (Header header : record.headers()) {
            SchemaAndValue one = headerConverter.toConnectHeader(record.topic(), header.key(), header.value());
            found.add(header.key(), one);
            if (keepsBytes && one.value() instanceof String text) read.put(text, header.value());
        }
        return found;
    }

    /** Kafka's headers from Connect's. */
    RecordHeaders written(R record) {
        RecordHeaders found = new RecordHeaders();
        for (org.apache.kafka.connect.header.Header h : record.headers()) {
            byte[] same = read.get(h.value());
            found.add(h.key(), same != null ? same
                : headerConverter.fromConnectHeader(record.topic(), h.key(), h.schema(), h.value()));
        }
        return found;
    }

    /** Ends retries that errors.retry.timeout would still allow. */
    void stopRetries() {
        stopping = true;
        operator.triggerStop();
    }

    /** Sets what bad records are reported to. */
    void reportTo(List<ErrorReporter<T>> reporters) {
        operator.reporters(reporters.stream().<ErrorReporter<T>>map(one -> context ->
            undecided(context) ? CompletableFuture.completedFuture(null) : one.report(context)).toList());
    }

    /** Whether the record of a context is bad. Throws StoppedException where more attempts might have converted it. */
    boolean failed(ProcessingContext<T> context) {
        if (undecided(context)) throw new StoppedException();
        return context.failed();
    }

    /** Whether retries of a record ended with the task. What the plugin itself reports is not converted again. */
    private boolean undecided(ProcessingContext<T> context) {
        return stopping && context.error() instanceof RetriableException && context.stage() != Stage.TASK_PUT;
    }

    @Override
    public void close() {
        chain.close(); // closes the stages too
        for (Plugin<?> one : owned) Utils.closeQuietly(one, "converter");
        operator.close();
        metrics.close();
    }
}
