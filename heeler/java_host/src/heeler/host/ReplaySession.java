package heeler.host;

import heeler.host.SourceConversion.Outgoing;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * A replay of a source's dead letters: passes their records through its transforms and converters, of which it has instances of
 * its own. The connector's tasks are not involved. The response to each message "convert" is a frame.
 */
final class ReplaySession extends Session {
    private final Host host;
    private final Connection.Message first;
    private final ConnectorTaskId id;
    private final List<?> converted; // as in SourceSession
    private final BlockingQueue<Connection.Message> requests = new LinkedBlockingQueue<>();
    private final RecordText texts = new RecordText();
    private volatile Runnable stopRetries = () -> { };
    private volatile boolean gone;

    ReplaySession(Host host, Connection connection, Connection.Message first) {
        super(connection);
        this.host = host;
        this.first = first;
        id = new ConnectorTaskId(first.text("name"), first.number("task"));
        loader = host.plugin(first).loader();
        converted = (List<?>) first.content().get("converted");
        thread = new Thread(this::run, "replay of " + id);
    }

    @Override
    void listen(Connection.Message first) throws IOException {
        thread.start();
        try {
            for (Connection.Message m = connection.read(); m != null; m = connection.read()) {
                if (m.op().equals("where")) describeCalls(m);
                else requests.add(m);
            }
        } finally {
            gone = true;
            stopRetries.run();
            thread.interrupt(); // in case it hangs
        }
    }

    private void run() {
        try (LoaderSwap swap = host.plugins.withClassLoader(loader);
             MetricsSender measures = new MetricsSender(host, "replay of " + id, Conversion.tags(id), this::event)) {
            SourceConnectorConfig config = new SourceConnectorConfig(host.plugins, first.strings("connector"), false);
            Map<?, ?> letters = (Map<?, ?>) first.content().get("letters");
            try (SourceConversion conversion = new SourceConversion(host, config, id, measures.all, converted, letters)) {
                stopRetries = conversion::stopRetries;
                conversion.beforeAttempt = calls::again;
                SourceFrame frame = new SourceFrame(converted != null);
                while (!gone) answer(conversion, frame, requests.take());
            }
        } catch (Throwable e) { // plugin code
            if (!gone) failed(e);
        }
    }

    private void answer(SourceConversion conversion, SourceFrame frame, Connection.Message request) throws IOException {
        try (PluginCalls.Call call = calls.of(PluginCalls.CONVERSION)) {
            for (Object letter : (List<?>) request.content().get("records")) {
                Outgoing sends = converted(conversion, (List<?>) letter);
                if (sends != null) frame.add(sends);
                SourceLetters.Letter again = conversion.letter();
                if (again != null) frame.add(again);
                call.again();
            }
        }
        frame.send(connection, request.number("number"), Map.of("offsets", List.of(), "more", false));
    }

    /** What a letter becomes: its offset in the queue and its record as text. The offset is in each error, so that a replay can leave it out. */
    private Outgoing converted(SourceConversion conversion, List<?> letter) {
        SourceRecord record;
        try {
            record = texts.read((String) letter.get(1));
        } catch (IOException | RuntimeException e) {
            throw failure(letter, "read", e);
        }
        try {
            return conversion.converted(record);
        } catch (Conversion.StoppedException e) {
            throw e;
        } catch (RuntimeException e) {
            throw failure(letter, "converted", e);
        }
    }

    private static DataException failure(List<?> letter, String what, Exception e) {
        return new DataException(
            "The record in the dead letter at offset " + letter.get(0) + " cannot be " + what + ": " + e.getMessage(), e);
    }
}
