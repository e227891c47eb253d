package heeler.host;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Records as flat columns in Arrow's memory layout, which pyarrow wraps without a copy.
 *
 * The body of a frame: rows (int), bytes of the meta JSON (int), sections (int), 0 (int), the size of each section
 * (long), the meta, the sections; each part is padded to 8 bytes. A column of bytes has three sections: offsets, data
 * and the validity bitmap (empty if no value is null). If the worker runs a part of the chain, two more sections follow: for
 * each record the indexes of its key's and value's schemas in the meta, -1 for none.
 */
final class Columns {
    static final int TOPIC = 0;
    static final int PARTITION = 1;
    static final int TIMESTAMP = 2;
    static final int KEY = 3;
    static final int VALUE = 6;
    static final int HEADERS = 9;
    static final int HEADER_KEY = 10;
    static final int HEADER_VALUE = 13;
    static final int SECTIONS = 16;
    private static final int KEY_SCHEMA = 16;
    private static final int VALUE_SCHEMA = 17;

    private static final int MOST_KEPT = 8 << 20; // bytes of a section between frames: all tasks share the direct memory

    /** One growing section. */
    private static final class Section {
        private final int first;
        ByteBuffer bytes;

        Section(int size) {
            first = size;
            bytes = buffer(size);
        }

        private static ByteBuffer buffer(int size) {
            return ByteBuffer.allocateDirect(size).order(ByteOrder.LITTLE_ENDIAN);
        }

        void clear() {
            if (bytes.capacity() > MOST_KEPT) bytes = buffer(first);
            else bytes.clear();
        }

        int size() {
            return bytes.position();
        }

        private void ensure(int more) {
            if (bytes.remaining() >= more) return;
            long wanted = Math.max(2L * bytes.capacity(), (long) bytes.position() + more);
            int capacity = (int) Math.min(Integer.MAX_VALUE, wanted);
            if (capacity - bytes.position() < more) throw new IllegalStateException("one batch has more than 2 GiB");
            ByteBuffer larger = buffer(capacity);
            bytes.flip();
            larger.put(bytes);
            bytes = larger;
        }

        void putByte(int value) {
            ensure(1);
            bytes.put((byte) value);
        }

        void putInt(int value) {
            ensure(4);
            bytes.putInt(value);
        }

        void putLong(long value) {
            ensure(8);
            bytes.putLong(value);
        }

        void put(byte[] value) {
            ensure(value.length);
            bytes.put(value);
        }
    }

    /** A column of byte strings, some null. */
    private static final class Strings {
        final Section offsets = new Section(1 << 12);
        final Section data = new Section(1 << 14);
        final Section valid = new Section(1 << 9);
        int count;
        int nulls;

        void add(byte[] value) {
            if (count == 0) offsets.putInt(0);
            if ((count & 7) == 0) valid.putByte(0);
            if (value == null) nulls++;
            else {
                data.put(value);
                int at = count >> 3;
                valid.bytes.put(at, (byte) (valid.bytes.get(at) | 1 << (count & 7)));
            }
            offsets.putInt(data.size());
            count++;
        }

        void clear() {
            count = nulls = 0;
            for (Section section : List.of(offsets, data, valid)) section.clear();
        }

        void into(Section[] sections, int at) {
            sections[at] = offsets;
            sections[at + 1] = data;
            sections[at + 2] = nulls == 0 ? null : valid;
        }
    }

    private final Section topic = new Section(1 << 12);
    private final Section partition = new Section(1 << 12);
    private final Section timestamp = new Section(1 << 13);
    private final Section keySchema = new Section(1 << 10); // used only at the cut of a chain, as is valueSchema
    private final Section valueSchema = new Section(1 << 10);
    private final Map<String, Integer> schemas = new LinkedHashMap<>();
    private final Section lists = new Section(1 << 10); // empty as long as no record has a header
    private final Strings key = new Strings();
    private final Strings value = new Strings();
    private final Strings headerKey = new Strings();
    private final Strings headerValue = new Strings();
    private final Map<String, Integer> topics = new LinkedHashMap<>();
    private int count;
    private String lastTopic;
    private int lastNumber;

    int count() {
        return count;
    }

    List<String> topics() {
        return List.copyOf(topics.keySet());
    }

    List<String> schemas() {
        return List.copyOf(schemas.keySet());
    }

    long size() {
        return (long) key.data.size() + value.data.size() + headerValue.data.size() + 24L * count;
    }

    void clear() {
        count = 0;
        lastTopic = null;
        topics.clear();
        schemas.clear();
        for (Section section : List.of(topic, partition, timestamp, lists, keySchema, valueSchema)) section.clear();
        for (Strings column : List.of(key, value, headerKey, headerValue)) column.clear();
    }

    /** The schemas, as JSON, of the next record's key and value; null for none. Called for every record, or for none. */
    void schemas(String ofKey, String ofValue) {
        keySchema.putInt(number(ofKey));
        valueSchema.putInt(number(ofValue));
    }

    private int number(String text) {
        return text == null ? -1 : schemas.computeIfAbsent(text, one -> schemas.size());
    }

    /** Adds a header of the next record. */
    void header(String name, byte[] content) {
        if (lists.size() == 0) for (int i = 0; i <= count; i++) lists.putInt(0);
        headerKey.add(name.getBytes(StandardCharsets.UTF_8));
        headerValue.add(content);
    }

    void add(String topicName, Integer toPartition, Long at, byte[] keyBytes, byte[] valueBytes) {
        if (!topicName.equals(lastTopic)) {
            lastNumber = topics.computeIfAbsent(topicName, name -> topics.size());
            lastTopic = topicName;
        }
        topic.putInt(lastNumber);
        partition.putInt(toPartition == null ? -1 : toPartition);
        timestamp.putLong(at == null ? -1 : at);
        key.add(keyBytes);
        value.add(valueBytes);
        count++;
        if (lists.size() != 0) lists.putInt(headerKey.count);
    }

    /** `cut`: whether the records are those at the cut of a chain. */
    ByteBuffer[] frame(int id, byte[] meta, boolean cut) {
        Section[] sections = new Section[cut ? VALUE_SCHEMA + 1 : SECTIONS];
        if (cut) {
            sections[KEY_SCHEMA] = keySchema;
            sections[VALUE_SCHEMA] = valueSchema;
        }
        sections[TOPIC] = topic;
        sections[PARTITION] = partition;
        sections[TIMESTAMP] = timestamp;
        key.into(sections, KEY);
        value.into(sections, VALUE);
        sections[HEADERS] = lists;
        headerKey.into(sections, HEADER_KEY);
        headerValue.into(sections, HEADER_VALUE);
        List<ByteBuffer> parts = new ArrayList<>();
        ByteBuffer head = ByteBuffer.allocate(32 + 8 * sections.length + padded(meta.length)).order(ByteOrder.LITTLE_ENDIAN);
        parts.add(head);
        head.position(16);
        head.putInt(count).putInt(meta.length).putInt(sections.length).putInt(0);
        long total = head.capacity() - 16;
        for (Section section : sections) {
            int size = section == null ? 0 : section.size();
            head.putLong(size);
            if (size == 0) continue;
            ByteBuffer view = section.bytes.duplicate();
            view.flip();
            parts.add(view);
            if (padded(size) != size) parts.add(ByteBuffer.allocate(padded(size) - size));
            total += padded(size);
        }
        head.put(meta);
        head.putInt(0, Connection.BATCH).putInt(4, id).putLong(8, total);
        head.position(0).limit(head.capacity());
        return parts.toArray(new ByteBuffer[0]);
    }

    static int padded(int size) {
        return (size + 7) & ~7;
    }
}
