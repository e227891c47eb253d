package heeler.host;

import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter;
import org.apache.kafka.connect.runtime.errors.ErrorReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * The dead letters of a source's bad records. Kafka Connect has none. A letter has what the converters make
 * of the record before the transforms, or a text if they cannot write it, and for a replay a header with the record itself.
 */
final class SourceLetters implements ErrorReporter<SourceRecord> {
    private static final String OWN = "heeler.letter."; // how the names of heeler's own headers of letters begin
    private static final String RECORD = OWN + "java.record";
    private static final int MOST_TEXT = 100_000; // characters of an error's message; a longer one could be too large for the queue
    private final ConnectorTaskId id;
    private final Conversion<?, SourceRecord> conversion;
    private final boolean described; // with the headers about the error
    private final int mostBytes; // of a letter with its record
    private final RecordText texts = new RecordText();
    private Letter last;

    /** For Kafka. */
    record Letter(long timestamp, RecordHeaders headers, byte[] key, byte[] value) {
        /** The bytes of key, value and headers. */
        long size() {
            long found = SourceLetters.size(key) + SourceLetters.size(value);
            for (Header one : headers) found += one.key().length() + SourceLetters.size(one.value());
            return found;
        }
    }

    /** `settings`: `headers`: whether letters describe the error; `mostBytes`: of a letter with its record, 0 for letters without. */
    SourceLetters(Map<?, ?> settings, ConnectorTaskId id, Conversion<?, SourceRecord> conversion) {
        this.id = id;
        this.conversion = conversion;
        described = (Boolean) settings.get("headers");
        mostBytes = (Integer) settings.get("mostBytes");
    }

    /** Takes the letter of the record that was converted last; null if it has none. */
    Letter taken() {
        Letter found = last;
        last = null;
        return found;
    }

    @Override
    public Future<RecordMetadata> report(ProcessingContext<SourceRecord> context) {
        SourceRecord record = context.original();
        RecordHeaders converted = orElse(() -> conversion.written(record), RecordHeaders::new);
        byte[] key = orElse(() -> conversion.keys.kafka(record.topic(), converted, record.keySchema(), record.key()),
            () -> shown(record.key()));
        byte[] value = orElse(() -> conversion.values.kafka(record.topic(), converted, record.valueSchema(), record.value()),
            () -> shown(record.value()));
        if (described) describe(context, converted, size(key) + size(value));
        Long time = record.timestamp();
        last = new Letter(time == null || time < 0 ? System.currentTimeMillis() : time, converted, key, value);
        return CompletableFuture.completedFuture(null);
    }

    private void describe(ProcessingContext<SourceRecord> context, RecordHeaders headers, long size) {
        // A copy of another letter, as MirrorSourceConnector reads it, has these of another record.
        for (Header one : headers.toArray()) if (one.key().startsWith(OWN)) headers.remove(one.key());
        SourceRecord record = context.original();
        if (record.topic() != null)
            headers.add(DeadLetterQueueReporter.ERROR_HEADER_ORIG_TOPIC, LetterContext.bytes(record.topic()));
        LetterContext.describe(id, context, (name, text) ->
            headers.add(name, LetterContext.bytes(Host.shortened(text, MOST_TEXT))));
        byte[] kept = mostBytes == 0 ? null : orElse(() -> LetterContext.bytes(texts.written(record)), () -> null);
        if (kept != null && size + kept.length <= mostBytes) headers.add(RECORD, kept);
    }

    /** The result of `work`, or of `other` if that fails; null if both do. The record is bad, so plugin code may throw anything. */
    private static <T> T orElse(Callable<T> work, Callable<T> other) {
        try {
            return work.call();
        } catch (Exception | StackOverflowError e) { // the latter for a value that contains itself
            return other == null ? null : orElse(other, null);
        }
    }

    private static byte[] shown(Object value) {
        return value instanceof byte[] bytes ? bytes : value == null ? null : LetterContext.bytes(String.valueOf(value));
    }

    private static long size(byte[] bytes) {
        return bytes == null ? 0 : bytes.length;
    }
}
