package heeler.host;

import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.errors.IllegalWorkerStateException;
import org.apache.kafka.connect.runtime.WorkerSinkTaskContext;
import org.apache.kafka.connect.sink.ErrantRecordReporter;

/**
 * The context of a sink task.
 *
 * A subclass of Kafka's own, because some connectors (Iceberg's) get the consumer from its private field: they commit
 * offsets in their own transactions, for which they need the group's generation.
 */
final class SinkContext extends WorkerSinkTaskContext {
    /** What the task's session provides. Thread-safe. */
    interface Source {
        Map<String, String> configs();

        SinkPositions places();

        ConsumerGroupMetadata group();

        void timeout(long ms);

        void requestCommit();

        ErrantRecordReporter reporter();

        PluginMetrics metrics();
    }

    private final Source source;

    SinkContext(Source source) {
        super(consumer(source), null, null);
        this.source = source;
    }

    /** A stand-in for the consumer, which is in the worker: it knows the group's metadata, but cannot commit or seek. */
    @SuppressWarnings("unchecked")
    private static Consumer<byte[], byte[]> consumer(Source source) {
        return (Consumer<byte[], byte[]>) Proxy.newProxyInstance(Consumer.class.getClassLoader(), new Class<?>[] {Consumer.class},
            (self, method, given) -> switch (method.getName()) {
                case "groupMetadata" -> source.group();
                case "assignment" -> source.places().all();
                case "committed" -> Map.of(); // partitions are opened at their committed offsets, whoever has committed them
                case "equals" -> self == given[0];
                case "hashCode" -> System.identityHashCode(self);
                case "toString" -> "the group of this task";
                default -> throw new UnsupportedOperationException("Consumer." + method.getName()
                    + ": the consumer of a sink task is in heeler's worker, not in this JVM");
            });
    }

    @Override
    public Map<String, String> configs() {
        return source.configs();
    }

    @Override
    public void offset(Map<TopicPartition, Long> offsets) {
        source.places().rewind(offsets);
    }

    @Override
    public void offset(TopicPartition place, long offset) {
        source.places().rewind(Map.of(place, offset));
    }

    @Override
    public void timeout(long ms) {
        source.timeout(ms);
    }

    @Override
    public Set<TopicPartition> assignment() {
        return source.places().all();
    }

    @Override
    public void pause(TopicPartition... which) {
        hold(true, which);
    }

    @Override
    public void resume(TopicPartition... which) {
        hold(false, which);
    }

    private void hold(boolean on, TopicPartition... which) {
        if (!source.places().hold(List.of(which), on))
            throw new IllegalWorkerStateException("only partitions that are assigned to the task can be paused or resumed, "
                + "and one of these is not: " + List.of(which));
    }

    @Override
    public void requestCommit() {
        source.requestCommit();
    }

    @Override
    public ErrantRecordReporter errantRecordReporter() {
        return source.reporter();
    }

    @Override
    public PluginMetrics pluginMetrics() {
        return source.metrics();
    }

    @Override
    public String toString() {
        return "the context of a sink task";
    }
}
