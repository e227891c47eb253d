package heeler.host;

import java.io.PrintStream;
import java.lang.reflect.Field;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.LoggerFactory;

/**
 * The output of this process and its plugins: each line begins with the connector and task that its thread works for,
 * between marks, for the worker's log. A thread that a plugin starts works for the same connector and task as the thread that starts it.
 * All lines of a message and of the stack trace after it have its level and logger, because other threads print between them.
 */
final class PluginOutput extends PrintStream {
    private static final String MARK = "\u0001";
    private static final Map<String, Integer> LEVELS = Map.of("TRACE", 0, "DEBUG", 10, "INFO", 20, "WARN", 30, "ERROR", 40, "OFF", 50);
    private static final Pattern HEAD = Pattern.compile("\\[(TRACE|DEBUG|INFO|WARN|ERROR)\\] ([\\w.$-]+ - )?");
    private static final InheritableThreadLocal<String> OWNER = new InheritableThreadLocal<>();

    private final ThreadLocal<String> head = ThreadLocal.withInitial(() -> ""); // of the thread's current message

    PluginOutput(PrintStream out) {
        super(out, true);
    }

    /** Makes what this thread, and later threads that it starts, print belong to the connector or task of a connection's first message. */
    static void setOwner(Connection.Message first) {
        switch (first.op()) {
            case "connector" -> OWNER.set(MARK + MARK + first.text("name") + MARK);
            case "source", "sink", "chain" -> OWNER.set(MARK + first.number("task") + MARK + first.text("name") + MARK);
            default -> OWNER.remove();
        }
    }

    private static String owner() {
        String owner = OWNER.get();
        return owner == null ? "" : owner;
    }

    @Override public void println(String line) {
        Matcher found = HEAD.matcher(String.valueOf(line));
        head.set(found.lookingAt() ? found.group() : "");
        super.println(owner() + marked(line));
    }

    /** Throwable prints its stack trace with this. */
    @Override public void println(Object line) {
        super.println((Object) (owner() + head.get() + marked(line)));
    }

    private String marked(Object lines) {
        return String.valueOf(lines).replace("\n", "\n" + owner() + head.get());
    }

    /** slf4j-simple calls this after a message and its stack trace. */
    @Override public void flush() {
        head.remove();
        super.flush();
    }

    /** Sets the level of a logger and those below it. slf4j-simple has no other way to change it at run time. */
    static void level(String logger, String level) throws ReflectiveOperationException {
        System.setProperty("org.slf4j.simpleLogger.log." + logger, level.toLowerCase()); // for loggers that do not exist yet
        Object factory = LoggerFactory.getILoggerFactory();
        Field known = factory.getClass().getDeclaredField("loggerMap");
        known.setAccessible(true);
        for (Map.Entry<?, ?> one : ((Map<?, ?>) known.get(factory)).entrySet()) {
            if (!(one.getKey() + ".").startsWith(logger + ".")) continue;
            Field current = one.getValue().getClass().getDeclaredField("currentLogLevel");
            current.setAccessible(true);
            current.setInt(one.getValue(), LEVELS.get(level));
        }
    }
}
