package heeler.host;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;

/**
 * Records of one partition as the worker sends them: the columns of Columns, but with offsets in place of topics. `from`,
 * `to`: the offsets that the frame covers, even if some have no record; `reset`: `from` is not the end of the last frame.
 * If the worker ran the first part of the chain, the same columns follow for the records at the cut, with topics.
 */
final class Frame {
    final TopicPartition place;
    final long from;
    final long to;
    final boolean reset;
    final int count;
    final boolean cut; // the worker ran the first part of the chain
    private final ByteBuffer body;
    private final int[] at;
    private final int[] size;
    private final Map<?, ?> cutMeta; // the metadata of the records at the cut

    Frame(ByteBuffer body) throws IOException {
        this.body = body;
        count = body.getInt(0);
        byte[] json = new byte[body.getInt(4)];
        int sections = body.getInt(8);
        at = new int[sections];
        size = new int[sections];
        int position = 16 + 8 * sections;
        body.get(position, json);
        position += Columns.padded(json.length);
        for (int i = 0; i < sections; i++) {
            size[i] = (int) body.getLong(16 + 8 * i);
            at[i] = position;
            position += Columns.padded(size[i]);
        }
        Map<?, ?> meta = Connection.MAPPER.readValue(json, Map.class);
        place = new TopicPartition((String) meta.get("topic"), (Integer) meta.get("partition"));
        from = ((Number) meta.get("from")).longValue();
        to = ((Number) meta.get("to")).longValue();
        reset = (Boolean) meta.get("reset");
        cutMeta = (Map<?, ?>) meta.get("cut");
        cut = cutMeta != null;
    }

    /** The row's offset in Kafka. */
    long offset(int row) {
        return body.getLong(at[Columns.TOPIC] + 8 * row);
    }

    /** The first row with at least this offset; `count` if there is none. */
    int rowFrom(long offset) {
        int low = 0;
        int high = count;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (offset(middle) < offset) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    /** The record as it is in Kafka. */
    ConsumerRecord<byte[], byte[]> record(int row) {
        return record(0, row, place.topic(), place.partition());
    }

    /** The record as it is at the cut. */
    ConsumerRecord<byte[], byte[]> given(int row) {
        List<?> topics = (List<?>) cutMeta.get("topics");
        return record(Columns.SECTIONS, row, (String) topics.get(body.getInt(at[Columns.SECTIONS + Columns.TOPIC] + 4 * row)),
            body.getInt(at[Columns.SECTIONS + Columns.PARTITION] + 4 * row));
    }

    /** Whether keys or values ("key", "value") are JSON at the cut. Their schema: `schema`, null for none. */
    boolean json(String part) {
        return cut && (Boolean) ((Map<?, ?>) cutMeta.get(part)).get("json");
    }

    String schema(String part) {
        return (String) ((Map<?, ?>) cutMeta.get(part)).get("schema");
    }

    private ConsumerRecord<byte[], byte[]> record(int from, int row, String topic, int partition) {
        RecordHeaders headers = new RecordHeaders();
        if (size[from + Columns.HEADERS] != 0) {
            int lists = at[from + Columns.HEADERS] + 4 * row;
            for (int i = body.getInt(lists); i < body.getInt(lists + 4); i++)
                headers.add(new String(bytes(from + Columns.HEADER_KEY, i), StandardCharsets.UTF_8),
                    bytes(from + Columns.HEADER_VALUE, i));
        }
        byte[] key = bytes(from + Columns.KEY, row);
        byte[] value = bytes(from + Columns.VALUE, row);
        long time = body.getLong(at[from + Columns.TIMESTAMP] + 8 * row);
        return new ConsumerRecord<>(topic, partition, offset(row), time,
            time < 0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME, key == null ? -1 : key.length,
            value == null ? -1 : value.length, key, value, headers, Optional.empty());
    }

    private byte[] bytes(int column, int row) {
        if (size[column + 2] != 0 && (body.get(at[column + 2] + (row >> 3)) & 1 << (row & 7)) == 0) return null;
        int ends = at[column] + 4 * row;
        byte[] found = new byte[body.getInt(ends + 4) - body.getInt(ends)];
        body.get(at[column + 1] + body.getInt(ends), found);
        return found;
    }
}
