package heeler.host;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Where the records of a frame were written, without those that a transform has dropped; an offset of -1 is unknown.
 * `topics`: from the worker's part of the chain; null if it runs none.
 */
record Placed(Map<Integer, String> topics, IntBuffer partitions, LongBuffer offsets) {
    static final int REFUSED = -2; // as a partition

    /** By the numbers of the frames. */
    static Map<Integer, Placed> of(Connection.Message acknowledgement) {
        Map<Integer, Placed> found = new HashMap<>();
        for (Object fields : (List<?>) acknowledgement.content().get("places")) {
            Map<?, ?> frame = (Map<?, ?>) fields;
            Map<Integer, String> topics = frame.get("topics") == null ? null : new HashMap<>();
            if (topics != null) ((Map<?, ?>) frame.get("topics")).forEach((topic, rows) -> {
                for (Object row : (List<?>) rows) topics.put((Integer) row, (String) topic);
            });
            found.put((Integer) frame.get("frame"), new Placed(topics,
                bytes(frame.get("partitions")).asIntBuffer(), bytes(frame.get("offsets")).asLongBuffer()));
        }
        return found;
    }

    private static ByteBuffer bytes(Object text) {
        return ByteBuffer.wrap(Base64.getDecoder().decode((String) text)).order(ByteOrder.LITTLE_ENDIAN);
    }
}
