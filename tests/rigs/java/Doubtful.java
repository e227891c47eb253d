package heeler.tests;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Is true of all values, but cannot decide about those that end with a question mark, nor say why about a dash. */
public class Doubtful<R extends ConnectRecord<R>> implements Predicate<R> {
    @Override public ConfigDef config() {
        return new ConfigDef();
    }

    @Override public boolean test(R record) {
        if (String.valueOf(record.value()).endsWith("?")) throw new DataException("is that so?");
        if ("-".equals(record.value())) throw new IllegalStateException();
        return true;
    }

    @Override public void configure(Map<String, ?> given) { }

    @Override public void close() { }
}
