package heeler.tests;

import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.transforms.Transformation;

/** Takes its time for each record, and does not succeed at once. */
public class Slow<R extends ConnectRecord<R>> implements Transformation<R> {
    private long ms;
    private int failures;

    @Override public ConfigDef config() {
        return new ConfigDef()
            .define("ms", ConfigDef.Type.LONG, ConfigDef.Importance.HIGH, "How long an attempt takes.")
            .define("failures", ConfigDef.Type.INT, 0, ConfigDef.Importance.LOW, "How many attempts fail.");
    }

    @Override public void configure(Map<String, ?> given) {
        ms = Long.parseLong(String.valueOf(given.get("ms")));
        failures = given.containsKey("failures") ? Integer.parseInt(String.valueOf(given.get("failures"))) : 0;
    }

    @Override public R apply(R record) {
        try {
            TimeUnit.MILLISECONDS.sleep(ms);
        } catch (InterruptedException e) {
            throw new ConnectException(e);
        }
        if (failures-- > 0) throw new RetriableException("not yet");
        return record;
    }

    @Override public void close() { }
}
