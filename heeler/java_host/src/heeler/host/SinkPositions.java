package heeler.host;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * The positions of a sink task in its partitions: the next offset to give it, and the end of what it has processed.
 * Methods are synchronized because threads of the plugin call some of them.
 */
final class SinkPositions {
    private final Map<TopicPartition, Long> next = new HashMap<>();
    private final Map<TopicPartition, Long> taken = new HashMap<>();
    private final Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>(); // what the worker commits
    private final Set<TopicPartition> held = new HashSet<>(); // kept while the worker joins again
    private final Map<TopicPartition, Long> rewinds = new HashMap<>();
    private final Set<TopicPartition> moved = new HashSet<>(); // partitions whose change the worker does not know yet

    /** [topic, partition, offset] as a map; an offset may be null. */
    static Map<TopicPartition, Long> offsets(Object triples) {
        Map<TopicPartition, Long> found = new LinkedHashMap<>();
        for (Object one : (List<?>) triples) {
            List<?> triple = (List<?>) one;
            Number offset = (Number) triple.get(2);
            found.put(new TopicPartition((String) triple.get(0), (Integer) triple.get(1)),
                offset == null ? null : (Long) offset.longValue());
        }
        return found;
    }

    private static List<Object> triple(TopicPartition partition, long offset) {
        return List.of(partition.topic(), partition.partition(), offset);
    }

    synchronized Set<TopicPartition> all() {
        return new HashSet<>(next.keySet());
    }

    synchronized void open(Map<TopicPartition, Long> offsets) {
        next.putAll(offsets);
        taken.putAll(offsets);
        offsets.forEach((partition, offset) -> committed.put(partition, new OffsetAndMetadata(offset)));
        held.retainAll(next.keySet());
        moved.addAll(held);
    }

    synchronized void close(Collection<TopicPartition> partitions) {
        for (Map<TopicPartition, ?> map : List.of(next, taken, committed, rewinds))
            map.keySet().removeAll(partitions);
        moved.removeAll(partitions);
    }

    /** The next offset to give the task; null if it does not have the partition or has paused it. */
    synchronized Long next(TopicPartition partition) {
        return held.contains(partition) ? null : next.get(partition);
    }

    synchronized void given(TopicPartition partition, long upTo) {
        next.computeIfPresent(partition, (same, before) -> upTo);
    }

    synchronized void took(Map<TopicPartition, Long> upTo) {
        upTo.forEach((partition, offset) -> taken.computeIfPresent(partition, (same, before) -> offset));
    }

    /** The worker sends offsets other than those the task needs. */
    synchronized void mistaken(TopicPartition partition) {
        moved.add(partition);
    }

    synchronized void rewind(Map<TopicPartition, Long> offsets) {
        rewinds.putAll(offsets);
    }

    /** Pauses or resumes partitions; false if one of them is not assigned. */
    synchronized boolean hold(Collection<TopicPartition> partitions, boolean on) {
        if (!next.keySet().containsAll(partitions)) return false;
        if (on) held.addAll(partitions);
        else held.removeAll(partitions);
        moved.addAll(partitions);
        return true;
    }

    /** Carries out rewinds. Returns what to tell the worker: the next offset of each partition that has moved, -1 if paused. */
    synchronized List<Object> settle() {
        rewinds.forEach((partition, offset) -> {
            if (offset == null || !next.containsKey(partition))
                System.err.println("[WARN] Cannot rewind " + partition + " to " + offset + ": "
                    + (offset == null ? "null is not an offset" : "the partition is not assigned to the task"));
            else back(partition, offset);
        });
        rewinds.clear();
        List<Object> fields = new ArrayList<>();
        for (TopicPartition partition : moved)
            if (next.containsKey(partition))
                fields.add(triple(partition, held.contains(partition) ? -1 : next.get(partition)));
        moved.clear();
        return fields;
    }

    private void back(TopicPartition partition, long offset) {
        next.put(partition, offset);
        taken.put(partition, offset);
        committed.put(partition, new OffsetAndMetadata(offset));
        moved.add(partition);
    }

    /** Goes back to the committed offsets. */
    synchronized void forget(Collection<TopicPartition> partitions) {
        for (TopicPartition partition : partitions)
            if (committed.containsKey(partition)) back(partition, committed.get(partition).offset());
    }

    synchronized Map<TopicPartition, OffsetAndMetadata> taken(Collection<TopicPartition> partitions) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (TopicPartition partition : partitions)
            if (taken.containsKey(partition)) found.put(partition, new OffsetAndMetadata(taken.get(partition)));
        return found;
    }

    /** Of the offsets that the task wants to commit, with their metadata, those that are new and not beyond what it has received. */
    synchronized List<Object> committable(
            Collection<TopicPartition> partitions, Map<TopicPartition, OffsetAndMetadata> wanted) {
        List<Object> fields = new ArrayList<>();
        wanted.forEach((partition, at) -> {
            if (!partitions.contains(partition) || !taken.containsKey(partition)) return;
            if (at.offset() > taken.get(partition))
                System.err.println("[WARN] Offset " + at.offset() + " of " + partition + " is not committed: the task has"
                    + " only received the records before " + taken.get(partition));
            else if (!at.equals(committed.put(partition, at)))
                fields.add(List.of(partition.topic(), partition.partition(), at.offset(), at.metadata()));
        });
        return fields;
    }
}
