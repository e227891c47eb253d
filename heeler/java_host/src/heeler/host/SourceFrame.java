package heeler.host;

import heeler.host.SourceConversion.Outgoing;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.Header;

/** The records of a source that are sent together, and the dead letters of bad ones: rows that the metadata names. */
final class SourceFrame {
    private static final String QUEUE = ""; // in the place of a topic: the worker knows it
    private final boolean cut; // the worker runs the last part of the chain
    private final Columns columns = new Columns();
    private final List<Integer> letters = new ArrayList<>();

    SourceFrame(boolean cut) {
        this.cut = cut;
    }

    /** How many rows it has. */
    int count() {
        return columns.count();
    }

    /** About how many bytes they have. */
    long size() {
        return columns.size();
    }

    void add(Outgoing record) {
        if (cut) columns.schemas(record.keySchema(), record.valueSchema());
        for (Header h : record.headers()) columns.header(h.key(), h.value());
        columns.add(record.topic(), record.partition(), record.timestamp(), record.key(), record.value());
    }

    void add(SourceLetters.Letter letter) {
        if (cut) columns.schemas(null, null);
        letters.add(columns.count());
        for (Header h : letter.headers()) columns.header(h.key(), h.value());
        columns.add(QUEUE, null, letter.timestamp(), letter.key(), letter.value());
    }

    /** Sends the frame, with more metadata, and empties it. */
    void send(Connection connection, int number, Map<String, ?> more) throws IOException {
        Map<String, Object> meta = new HashMap<>(more);
        meta.put("topics", columns.topics());
        meta.put("schemas", columns.schemas());
        meta.put("letters", letters);
        ByteBuffer[] frame = columns.frame(number, Connection.MAPPER.writeValueAsBytes(meta), cut);
        connection.write(frame);
        columns.clear();
        letters.clear();
    }
}
