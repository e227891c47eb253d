package heeler.host;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.function.BiConsumer;
import org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** The headers of a dead letter that describe the error, in the order of Kafka Connect. They follow those with the record's origin. */
final class LetterContext {
    private LetterContext() { }

    /** Passes name and value of each header to `header`; a value may be null. */
    static void describe(ConnectorTaskId id, ProcessingContext<?> context, BiConsumer<String, String> header) {
        header.accept(DeadLetterQueueReporter.ERROR_HEADER_CONNECTOR_NAME, id.connector());
        header.accept(DeadLetterQueueReporter.ERROR_HEADER_TASK_ID, String.valueOf(id.task()));
        header.accept(DeadLetterQueueReporter.ERROR_HEADER_STAGE, context.stage().name());
        header.accept(DeadLetterQueueReporter.ERROR_HEADER_EXECUTING_CLASS, context.executingClass().getName());
        Throwable error = context.error();
        if (error == null) return;
        StringWriter trace = new StringWriter();
        error.printStackTrace(new PrintWriter(trace));
        header.accept(DeadLetterQueueReporter.ERROR_HEADER_EXCEPTION, error.getClass().getName());
        header.accept(DeadLetterQueueReporter.ERROR_HEADER_EXCEPTION_MESSAGE, error.getMessage());
        header.accept(DeadLetterQueueReporter.ERROR_HEADER_EXCEPTION_STACK_TRACE, trace.toString());
    }

    /** A header's bytes. */
    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }
}
