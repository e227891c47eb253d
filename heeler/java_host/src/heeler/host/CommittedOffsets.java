package heeler.host;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/**
 * The connector's committed offsets, which the worker is asked for each time. They are sent as the JSON of the offsets
 * topic, so that numbers have the same types on both sides.
 */
final class CommittedOffsets implements OffsetStorageReader {
    private static final JsonConverter JSON = new JsonConverter();

    static {
        JSON.configure(Map.of("schemas.enable", "false"), false);
    }

    private final Connection connection;

    CommittedOffsets(Connection connection) {
        this.connection = connection;
    }

    static Object value(String json) {
        return JSON.toConnectData("", json.getBytes(StandardCharsets.UTF_8)).value();
    }

    static String text(Map<?, ?> value) {
        return value == null ? "null" : new String(JSON.fromConnectData("", null, value), StandardCharsets.UTF_8);
    }

    /** Pairs of JSON texts as maps; an offset may be null. */
    @SuppressWarnings("unchecked")
    static Map<Map<String, ?>, Map<String, ?>> maps(Object pairs) {
        Map<Map<String, ?>, Map<String, ?>> found = new HashMap<>();
        for (List<String> pair : (List<List<String>>) pairs)
            found.put((Map<String, ?>) value(pair.get(0)), (Map<String, ?>) value(pair.get(1)));
        return found;
    }

    @Override
    public <T> Map<String, Object> offset(Map<String, T> partition) {
        return offsets(List.of(partition)).get(partition);
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
        Map<Map<String, ?>, Map<String, ?>> known;
        try {
            known = maps(connection.ask("offsets").get("pairs"));
        } catch (IOException e) {
            throw new ConnectException("Failed to fetch offsets: " + e.getMessage(), e);
        } catch (InterruptedException e) {
            throw new ConnectException("Interrupted while fetching offsets", e);
        }
        Map<Map<String, T>, Map<String, Object>> found = new HashMap<>();
        for (Map<String, T> partition : partitions) // through JSON, so that an int equals a long
            found.put(partition, (Map<String, Object>) known.get(value(text(partition))));
        return found;
    }
}
