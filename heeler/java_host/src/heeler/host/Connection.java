package heeler.host;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/**
 * Frames to and from the worker: kind (int), id (int), length of the body (long), body; little endian.
 *
 * A message is a JSON object with "op". The worker's requests have positive ids, the host's negative ones; a response has
 * the id of its request. A message with id 0 gets no response.
 */
final class Connection implements Closeable {
    static final int MESSAGE = 1;
    static final int BATCH = 2;
    static final ObjectMapper MAPPER = new ObjectMapper();
    private static final int MOST_BYTES = Integer.MAX_VALUE - 8;

    record Message(int id, Map<String, Object> content) {
        String op() {
            return String.valueOf(content.get("op"));
        }

        String text(String key) {
            return (String) content.get(key);
        }

        int number(String key) {
            return ((Number) content.get(key)).intValue();
        }

        /** A configuration; a copy, since plugins may change it. */
        @SuppressWarnings("unchecked")
        Map<String, String> strings(String key) {
            return new HashMap<>((Map<String, String>) content.get(key));
        }
    }

    private final SocketChannel channel;
    private final AtomicInteger requests = new AtomicInteger();
    private final Map<Integer, CompletableFuture<Map<String, Object>>> open = new ConcurrentHashMap<>();
    private volatile boolean ended;

    Connection(SocketChannel channel) {
        this.channel = channel;
    }

    /** The next message that is not a response; null at the end. Called by one thread only. */
    Message read() throws IOException {
        return read(null);
    }

    /** The same; frames of records, which may come too, go to `batches`. */
    Message read(Consumer<Frame> batches) throws IOException {
        while (true) {
            Message message = next(batches);
            if (message == null) {
                ended = true;
                for (CompletableFuture<Map<String, Object>> response : open.values())
                    response.completeExceptionally(new EOFException("the worker has closed the connection"));
                return null;
            }
            CompletableFuture<Map<String, Object>> waiting = message.id() < 0 ? open.remove(message.id()) : null;
            if (waiting == null) return message;
            if (message.op().equals("failed"))
                waiting.completeExceptionally(new IOException(String.valueOf(message.content().get("message"))));
            else waiting.complete(message.content());
        }
    }

    @SuppressWarnings("unchecked")
    private Message next(Consumer<Frame> batches) throws IOException {
        ByteBuffer head = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN);
        while (fill(head)) {
            long size = head.getLong(8);
            int kind = head.getInt(0);
            boolean known = kind == MESSAGE || kind == BATCH && batches != null;
            if (!known || size < 0 || size > MOST_BYTES) throw new IOException("not a message");
            ByteBuffer body = ByteBuffer.allocate((int) size).order(ByteOrder.LITTLE_ENDIAN);
            if (!fill(body) && size > 0) throw new EOFException();
            if (kind == MESSAGE) return new Message(head.getInt(4), MAPPER.readValue(body.array(), Map.class));
            batches.accept(new Frame(body));
            head.clear();
        }
        return null;
    }

    private boolean fill(ByteBuffer buffer) throws IOException {
        while (buffer.hasRemaining()) {
            if (channel.read(buffer) < 0) {
                if (buffer.position() == 0) return false;
                throw new EOFException();
            }
        }
        return true;
    }

    /** Sends the worker a request and waits for its response. Must not be called by the thread that reads. */
    Map<String, Object> ask(String op) throws IOException, InterruptedException {
        CompletableFuture<Map<String, Object>> response = new CompletableFuture<>();
        int id = -requests.incrementAndGet();
        open.put(id, response);
        if (ended) throw new EOFException("the worker has closed the connection");
        tell(id, Map.of("op", op));
        try {
            return response.get();
        } catch (ExecutionException e) {
            throw new IOException(e.getCause().getMessage(), e.getCause());
        }
    }

    void tell(int id, Map<String, ?> content) throws IOException {
        byte[] body = MAPPER.writeValueAsBytes(content);
        ByteBuffer frame = ByteBuffer.allocate(16 + body.length).order(ByteOrder.LITTLE_ENDIAN);
        frame.putInt(MESSAGE).putInt(id).putLong(body.length).put(body).flip();
        write(frame);
    }

    /** Writes one frame, given as buffers. */
    synchronized void write(ByteBuffer... parts) throws IOException {
        int first = 0;
        while (first < parts.length) {
            channel.write(parts, first, parts.length - first);
            while (first < parts.length && !parts[first].hasRemaining()) first++;
        }
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
