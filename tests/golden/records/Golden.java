// Writes golden.txt: record batches and hashes as Kafka's Java client makes them. JARS holds kafka-clients 4.3.1 and
// the compression libraries it needs, OUT is any folder:
//   javac -cp 'JARS/*' -d OUT tests/golden/records/Golden.java
//   java -cp 'OUT:JARS/*' Golden > tests/golden/records/golden.txt
// One line each: name and bytes in hex; "murmur2", the key in hex and its hash for the partitioner.
// With --read it reads lines of name and hex (bytes that heeler wrote) and prints the records that Java finds.
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Scanner;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Utils;

public class Golden {
    static final long TIME = 1_700_000_000_000L;

    static byte[] utf8(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static void print(String name, ByteBuffer bytes) {
        byte[] array = new byte[bytes.remaining()];
        bytes.duplicate().get(array);
        System.out.println(name + " " + HexFormat.of().formatHex(array));
    }

    static SimpleRecord[] records() {
        Header[] headers = {new RecordHeader("h\u00e9", utf8("v")), new RecordHeader("none", null), new RecordHeader("h\u00e9", utf8(""))};
        return new SimpleRecord[] {
            new SimpleRecord(TIME, utf8("key"), utf8("value")),
            new SimpleRecord(TIME + 70_000, null, utf8("value ".repeat(40))),
            new SimpleRecord(TIME - 5, utf8(""), null),
            new SimpleRecord(TIME + 1, (byte[]) null, null),
            new SimpleRecord(TIME + 2, utf8("k"), utf8(""), headers),
            new SimpleRecord(TIME + 3, utf8("\u0000\u00ff"), utf8("end")),
        };
    }

    static void write() {
        print("none", MemoryRecords.withRecords(10L, Compression.NONE, records()).buffer());
        print("gzip", MemoryRecords.withRecords(10L, Compression.gzip().build(), records()).buffer());
        print("snappy", MemoryRecords.withRecords(10L, Compression.snappy().build(), records()).buffer());
        print("lz4", MemoryRecords.withRecords(10L, Compression.lz4().build(), records()).buffer());
        print("zstd", MemoryRecords.withRecords(10L, Compression.zstd().build(), records()).buffer());
        print("idempotent", MemoryRecords.withIdempotentRecords(10L, Compression.NONE, 77L, (short) 3, 41, 0, records()).buffer());
        print("transactional", MemoryRecords.withTransactionalRecords(10L, Compression.NONE, 77L, (short) 3, 41, 0, records()).buffer());
        print("commit", MemoryRecords.withEndTransactionMarker(16L, TIME, 0, 77L, (short) 3,
            new EndTransactionMarker(ControlRecordType.COMMIT, 5)).buffer());
        print("abort", MemoryRecords.withEndTransactionMarker(16L, TIME, 0, 77L, (short) 3,
            new EndTransactionMarker(ControlRecordType.ABORT, 5)).buffer());

        MemoryRecordsBuilder append = MemoryRecords.builder(ByteBuffer.allocate(1024), RecordBatch.CURRENT_MAGIC_VALUE,
            Compression.NONE, TimestampType.LOG_APPEND_TIME, 10L, TIME + 12_345);
        for (SimpleRecord record : records()) append.append(record);
        print("append-time", append.build().buffer());

        MemoryRecordsBuilder gaps = MemoryRecords.builder(ByteBuffer.allocate(1024), Compression.NONE, TimestampType.CREATE_TIME, 10L);
        gaps.appendWithOffset(12L, TIME, utf8("a"), utf8("1"));
        gaps.appendWithOffset(17L, TIME + 1, utf8("b"), utf8("2"));
        gaps.overrideLastOffset(30L);
        print("compacted", gaps.build().buffer());

        ByteBuffer empty = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(empty, RecordBatch.CURRENT_MAGIC_VALUE, 77L, (short) 3, 41, 10L, 25L, 0,
            TimestampType.CREATE_TIME, TIME, false, false);
        empty.flip();
        print("emptied", empty);
        print("v1", MemoryRecords.withRecords(RecordBatch.MAGIC_VALUE_V1, Compression.NONE, records()[0]).buffer());
        print("v0", MemoryRecords.withRecords(RecordBatch.MAGIC_VALUE_V0, Compression.NONE, records()[0]).buffer());

        for (String key : new String[] {"", "a", "ab", "abc", "abcd", "21", "foobar", "a-little-bit-long-string",
            "a-little-bit-longer-string", "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", "\u00ff\u0080\u7fff"}) {
            System.out.println("murmur2 " + HexFormat.of().formatHex(utf8(key)) + " " + Utils.murmur2(utf8(key)));
        }
    }

    static void read() {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split(" ");
            for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(parts[1]))).batches()) {
                batch.ensureValid();
                System.out.println(parts[0] + " " + batch.compressionType() + " " + batch.producerId() + " " + batch.producerEpoch()
                    + " " + batch.baseSequence() + ".." + batch.lastSequence() + " " + batch.isTransactional() + " " + batch.maxTimestamp());
                for (Record record : batch) {
                    record.ensureValid();
                    System.out.println("  " + record.offset() + " " + record.timestamp() + " " + text(record.key()) + " "
                        + text(record.value()) + " " + record.headers().length);
                }
            }
        }
    }

    static String text(ByteBuffer bytes) {
        return bytes == null ? "null" : HexFormat.of().formatHex(Utils.toArray(bytes));
    }

    public static void main(String[] arguments) {
        if (arguments.length > 0) read(); else write();
    }
}
