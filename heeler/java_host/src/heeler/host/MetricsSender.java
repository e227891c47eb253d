package heeler.host;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.connect.runtime.ConnectMetrics;

/**
 * The metrics of one connector's or task's plugins (KIP-877), sent to the worker every second if they have changed. A
 * gauge is plugin code and may hang, so each instance reads them in its own thread.
 */
final class MetricsSender implements AutoCloseable {
    private static final String GROUP = "plugins";
    private static final long EVERY_MS = 1000;
    private static final int MOST = 1001; // the worker keeps 1000, and says if there are more
    private static final int LONGEST = 500; // characters of a text, of which the worker keeps less
    final ConnectMetrics all;
    final PluginMetrics plugin; // the connector's or task's own; those of converters, transforms and predicates are separate
    private final String name;
    private final Consumer<Map<String, ?>> tell;
    private final Map<MetricName, KafkaMetric> theirs = new ConcurrentHashMap<>();
    private final Set<MetricName> bad = ConcurrentHashMap.newKeySet();
    private Thread sender; // this and what follows is guarded by `this`
    private boolean closed;

    /** `tags`: the connector's or task's. */
    MetricsSender(Host host, String name, Map<String, String> tags, Consumer<Map<String, ?>> tell) {
        this.name = name;
        this.tell = tell;
        all = host.metrics();
        plugin = new PluginMetricsImpl(all.metrics(), tags);
        all.metrics().addReporter(new Reporter());
    }

    static Map<String, String> tags(String... pairs) {
        Map<String, String> found = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) found.put(pairs[i], pairs[i + 1]);
        return found;
    }

    private final class Reporter implements MetricsReporter {
        @Override public void init(List<KafkaMetric> metrics) { }

        @Override public void configure(Map<String, ?> settings) { }

        @Override public void close() { }

        @Override public void metricChange(KafkaMetric metric) {
            if (!metric.metricName().group().equals(GROUP)) return;
            theirs.put(metric.metricName(), metric);
            begin();
        }

        @Override public void metricRemoval(KafkaMetric metric) {
            theirs.remove(metric.metricName());
        }
    }

    private synchronized void begin() {
        if (sender != null || closed) return;
        sender = new Thread(this::run, "metrics " + name);
        sender.setDaemon(true);
        sender.start();
    }

    private void run() {
        List<Object> before = List.of();
        try {
            while (true) {
                List<Object> now = values();
                if (!now.equals(before)) tell.accept(Map.of("op", "metrics", "values", now));
                before = now;
                synchronized (this) {
                    if (!closed) wait(EVERY_MS);
                    if (closed) return;
                }
            }
        } catch (InterruptedException e) {
            // A plugin interrupted this thread: its metrics are no longer updated.
        }
    }

    private List<Object> values() {
        List<Object> found = new ArrayList<>();
        theirs.forEach((metric, measured) -> {
            if (found.size() >= MOST) return;
            try {
                found.add(fields(metric, measured.metricValue()));
            } catch (Throwable e) { // plugin code
                if (bad.add(metric)) System.err.println("[WARN] " + name + ": the metric " + metric.name() + " has no value: " + e);
            }
        });
        return found;
    }

    private static Map<String, Object> fields(MetricName metric, Object value) {
        Map<String, Object> fields = new LinkedHashMap<>();
        Map<String, String> tags = new LinkedHashMap<>();
        metric.tags().forEach((key, tag) -> tags.put(shortened(key), shortened(tag)));
        fields.put("name", shortened(metric.name()));
        fields.put("help", shortened(metric.description()));
        fields.put("tags", tags);
        if (value instanceof Number number) fields.put("value", number.doubleValue());
        else if (value instanceof Boolean yes) fields.put("value", yes ? 1.0 : 0.0);
        else fields.put("text", shortened(String.valueOf(value)));
        return fields;
    }

    private static String shortened(String text) {
        return text == null || text.length() <= LONGEST ? text : text.substring(0, LONGEST);
    }

    @Override
    public void close() {
        synchronized (this) {
            closed = true;
            notifyAll();
        }
        all.stop();
    }
}
