package heeler.host;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The calls of a task's plugins that have not returned, for a worker that has heard nothing for long.
 *
 * A `poll` may wait for data as long as it likes; whether it does cannot be told from its thread's state, because one that
 * reads from a socket is RUNNABLE. So a `poll` waits unless it has used the CPU for a good part of its time, or is in a
 * deadlock. Other calls do not wait for data.
 */
final class PluginCalls {
    static final String POLL = "poll";
    static final String CONVERSION = "a transform or converter";
    private static final double BUSY = 0.25; // the share of a CPU above which a call does not wait
    private static final int MOST_FRAMES = 100;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private final Session session;
    private final Map<Thread, Call> calls = new ConcurrentHashMap<>();

    PluginCalls(Session session) {
        this.session = session;
    }

    /** A call in this thread, which ends when it is closed. */
    Call of(String method) {
        Call call = new Call(method);
        calls.put(call.thread, call);
        return call;
    }

    /** This thread's call has returned, and is followed by another one of the same method. */
    void again() {
        Call call = calls.get(Thread.currentThread());
        if (call != null) call.again();
    }

    final class Call implements AutoCloseable {
        private final String method;
        private final Thread thread = Thread.currentThread();
        private final long cpuSince; // of a poll
        private volatile long since = System.nanoTime();
        private volatile boolean told; // the worker knows of it, and wants to know when it returns

        private Call(String method) {
            this.method = method;
            cpuSince = method.equals(POLL) ? cpu(thread) : 0;
        }

        /** It has returned, and is followed by another one of the same method, but for a poll. Faster than a new call. */
        void again() {
            since = System.nanoTime();
            returned();
        }

        @Override
        public void close() {
            calls.remove(thread);
            returned();
        }

        private void returned() {
            if (!told) return;
            told = false;
            session.event(Map.of("op", "returned"));
        }

        private Map<String, Object> described(long[] deadlocked) {
            long ns = Math.max(1, System.nanoTime() - since);
            boolean stuck = false;
            for (long one : deadlocked) stuck |= one == thread.getId();
            boolean waits = method.equals(POLL) && !stuck && cpu(thread) - cpuSince < BUSY * ns;
            return Map.of("method", method, "ms", ns / 1_000_000, "waits", waits, "stack", stackOf(thread, stuck));
        }
    }

    /** The calls, with their stacks. An event "returned" follows when one of them does. */
    Map<String, Object> described() {
        long[] deadlocked = THREADS.findDeadlockedThreads();
        List<Object> all = new ArrayList<>();
        for (Call call : calls.values()) {
            call.told = true;
            if (calls.get(call.thread) == call) all.add(call.described(deadlocked == null ? new long[0] : deadlocked));
        }
        return Map.of("op", "answer", "calls", all);
    }

    private static long cpu(Thread thread) {
        return THREADS.isThreadCpuTimeSupported() ? Math.max(0, THREADS.getThreadCpuTime(thread.getId())) : 0;
    }

    private static String stackOf(Thread thread, boolean deadlocked) {
        ThreadInfo info = THREADS.getThreadInfo(thread.getId(), MOST_FRAMES);
        if (info == null) return "Its thread has just ended";
        StringBuilder text = new StringBuilder("\"" + info.getThreadName() + "\" " + info.getThreadState());
        if (info.getLockName() != null) text.append(" on ").append(info.getLockName());
        if (info.getLockOwnerName() != null) text.append(", which \"").append(info.getLockOwnerName()).append("\" holds");
        if (deadlocked) text.append(" (a deadlock)");
        for (StackTraceElement frame : info.getStackTrace()) text.append("\n\tat ").append(frame);
        return text.toString();
    }
}
