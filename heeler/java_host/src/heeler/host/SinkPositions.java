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
 * The positions of a sink task in its partitions: the next offset to give it, and the end of what it has taken. Methods are
 * synchronized because threads of the plugin call some of them.
 */
final class SinkPositions {
    private final Map<TopicPartition, Long> next = new HashMap<>();
    private final Map<TopicPartition, Long> taken = new HashMap<>();
    private final Map<TopicPartition, Long> committed = new HashMap<>(); // what the worker was told to commit
    private final Set<TopicPartition> held = new HashSet<>();
    private final Map<TopicPartition, Long> rewinds = new HashMap<>();
    private final Set<TopicPartition> moved = new HashSet<>(); // partitions that the worker has to be told about

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

    private static List<Object> triple(TopicPartition place, long offset) {
        return List.of(place.topic(), place.partition(), offset);
    }

    synchronized Set<TopicPartition> all() {
        return new HashSet<>(next.keySet());
    }

    synchronized void open(Map<TopicPartition, Long> places) {
        next.putAll(places);
        taken.putAll(places);
        committed.putAll(places);
    }

    synchronized void close(Collection<TopicPartition> places) {
        for (Map<TopicPartition, Long> map : List.of(next, taken, committed, rewinds)) map.keySet().removeAll(places);
        held.removeAll(places);
        moved.removeAll(places);
    }

    /** The next offset to give the task; null if it does not have the partition or has paused it. */
    synchronized Long next(TopicPartition place) {
        return held.contains(place) ? null : next.get(place);
    }

    synchronized void given(TopicPartition place, long upTo) {
        next.computeIfPresent(place, (same, before) -> upTo);
    }

    synchronized void took(Map<TopicPartition, Long> upTo) {
        upTo.forEach((place, offset) -> taken.computeIfPresent(place, (same, before) -> offset));
    }

    /** The worker sends other offsets than the task needs. */
    synchronized void mistaken(TopicPartition place) {
        moved.add(place);
    }

    synchronized void rewind(Map<TopicPartition, Long> offsets) {
        rewinds.putAll(offsets);
    }

    /** Pauses or resumes partitions; false if one of them is not assigned. */
    synchronized boolean hold(Collection<TopicPartition> places, boolean on) {
        if (!next.keySet().containsAll(places)) return false;
        if (on) held.addAll(places);
        else held.removeAll(places);
        moved.addAll(places);
        return true;
    }

    /** Carries out rewinds. What to tell the worker: the next offset of each partition that has moved, -1 if paused. */
    synchronized List<Object> settle() {
        rewinds.forEach((place, offset) -> {
            if (offset == null || !next.containsKey(place))
                System.err.println("[WARN] Cannot rewind " + place + " to " + offset + ": "
                    + (offset == null ? "that is not an offset" : "the task does not have the partition"));
            else back(place, offset);
        });
        rewinds.clear();
        List<Object> fields = new ArrayList<>();
        for (TopicPartition place : moved)
            if (next.containsKey(place)) fields.add(triple(place, held.contains(place) ? -1 : next.get(place)));
        moved.clear();
        return fields;
    }

    private void back(TopicPartition place, long offset) {
        next.put(place, offset);
        taken.put(place, offset);
        committed.put(place, offset);
        moved.add(place);
    }

    /** Goes back to the committed offsets. */
    synchronized void forget(Collection<TopicPartition> places) {
        for (TopicPartition place : places) if (committed.containsKey(place)) back(place, committed.get(place));
    }

    synchronized Map<TopicPartition, OffsetAndMetadata> taken(Collection<TopicPartition> places) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (TopicPartition place : places)
            if (taken.containsKey(place)) found.put(place, new OffsetAndMetadata(taken.get(place)));
        return found;
    }

    /** Those of the offsets that the task wants committed which are new, and not beyond what it has taken. */
    synchronized List<Object> committable(Collection<TopicPartition> places, Map<TopicPartition, OffsetAndMetadata> wanted) {
        List<Object> fields = new ArrayList<>();
        wanted.forEach((place, at) -> {
            if (!places.contains(place) || !taken.containsKey(place)) return;
            if (at.offset() > taken.get(place))
                System.err.println("[WARN] Offset " + at.offset() + " of " + place + " is not committed: the task has only taken"
                    + " the records before " + taken.get(place));
            else if (committed.put(place, at.offset()) != at.offset()) fields.add(triple(place, at.offset()));
        });
        return fields;
    }
}
