import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Kafka's own classes as judge: a JSON object per line in, one per line out; bytes are base64. */
public final class Judge {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final short PRODUCE_VERSION = 12;
    private static final String COORDINATOR_PACKAGE = "org.apache.kafka.coordinator.";

    private final Clock clock = new Clock();
    private final BrokerTopicStats stats = new BrokerTopicStats();
    private final Map<Integer, VerificationGuard> guards = new HashMap<>();
    private UnifiedLog log;

    public static void main(String[] arguments) throws IOException {
        PrintStream out = System.out;
        System.setOut(System.err);
        Judge judge = new Judge();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(judge.answer(JSON.readTree(line))));
            out.flush();
        }
    }

    /** What was asked for, or the name of Kafka's error. */
    private ObjectNode answer(JsonNode asked) {
        ObjectNode answer = JsonNodeFactory.instance.objectNode();
        if (asked.has("now")) clock.now = asked.get("now").asLong();
        try {
            switch (asked.get("do").asText()) {
                case "open" -> open(asked);
                case "close" -> log.close();
                case "crash" -> log.closeHandlers();
                case "append" -> append(asked, answer);
                case "follow" -> follow(asked, answer);
                case "verify" -> verify(asked, answer);
                case "prune" -> log.producerStateManager()
                    .clearVerificationStateEntry(asked.get("producer_id").asLong());
                case "leader" -> log.assignEpochStartOffset(asked.get("epoch").asInt(), log.logEndOffset());
                case "roll" -> log.roll(Optional.empty());
                case "snapshot" -> log.takeProducerSnapshot();
                case "high_watermark" -> log.updateHighWatermark(asked.get("offset").asLong());
                case "truncate" -> log.truncateTo(asked.get("offset").asLong());
                case "truncate_fully" ->
                    log.truncateFullyAndStartAt(asked.get("offset").asLong(), Optional.empty());
                case "delete_records" -> log.maybeIncrementLogStartOffset(
                    asked.get("offset").asLong(), LogStartOffsetIncrementReason.ClientRecordDeletion);
                case "delete_segments" -> log.deleteOldSegments();
                case "expire" -> log.removeExpiredProducers(clock.now);
                case "state" -> state(answer);
                case "files" -> files(new File(asked.get("folder").asText()), answer);
                case "read" -> read(asked, answer);
                case "build" -> build(asked, answer);
                case "decode" -> decode(asked, answer);
                case "encode" -> encode(asked, answer);
                default -> throw new IllegalArgumentException("unknown request " + asked);
            }
        } catch (RecordValidationException error) {
            answer.put("error", Errors.forException(error.invalidException()).name());
            answer.put("message", String.valueOf(error.invalidException().getMessage()));
        } catch (Throwable error) {
            answer.put("error", Errors.forException(error).name());
            answer.put("class", error.getClass().getSimpleName());
            answer.put("message", String.valueOf(error.getMessage()));
        }
        return answer;
    }

    private void open(JsonNode asked) throws IOException {
        Properties properties = new Properties();
        asked.get("config").properties().forEach(f -> properties.put(f.getKey(), f.getValue().asText()));
        File folder = new File(asked.get("folder").asText());
        folder.mkdirs();
        guards.clear();
        log = UnifiedLog.create(
            folder, new LogConfig(properties), asked.get("log_start_offset").asLong(),
            asked.get("recovery_point").asLong(), new Idle(), stats, clock,
            asked.get("max_transaction_timeout_ms").asInt(),
            new ProducerStateManagerConfig(
                asked.get("producer_id_expiration_ms").asInt(), asked.get("verification").asBoolean()),
            600_000, new LogDirFailureChannel(10), asked.get("clean").asBoolean(), Optional.<Uuid>empty());
    }

    private void append(JsonNode asked, ObjectNode answer) throws IOException {
        AppendOrigin origin = AppendOrigin.valueOf(asked.get("origin").asText());
        MemoryRecords records = MemoryRecords.readableRecords(bytes(asked, "records"));
        if (origin == AppendOrigin.CLIENT) ProduceRequest.validateRecords(PRODUCE_VERSION, records);
        VerificationGuard guard = guards.getOrDefault(asked.get("guard").asInt(), VerificationGuard.SENTINEL);
        long end = log.logEndOffset();
        LogAppendInfo info = log.appendAsLeader(
            records, asked.get("leader_epoch").asInt(), origin, RequestLocal.noCaching(), guard,
            (short) asked.get("transaction_version").asInt());
        describe(info, end, answer);
    }

    private void follow(JsonNode asked, ObjectNode answer) {
        long end = log.logEndOffset();
        MemoryRecords records = MemoryRecords.readableRecords(bytes(asked, "records"));
        describe(log.appendAsFollower(records, asked.get("leader_epoch").asInt()), end, answer);
    }

    private void describe(LogAppendInfo info, long end, ObjectNode answer) {
        answer.put("base_offset", info.firstOffset());
        answer.put("last_offset", info.lastOffset());
        answer.put("log_append_time", info.logAppendTime());
        answer.put("log_start_offset", info.logStartOffset());
        answer.put("appended", log.logEndOffset() > end);
    }

    /** A guard is named by the number that the caller gives it. */
    private void verify(JsonNode asked, ObjectNode answer) {
        VerificationGuard guard = log.maybeStartTransactionVerification(
            asked.get("producer_id").asLong(), asked.get("sequence").asInt(),
            (short) asked.get("producer_epoch").asInt(), asked.get("supports_epoch_bump").asBoolean());
        guards.put(asked.get("guard").asInt(), guard);
        answer.put("sentinel", guard == VerificationGuard.SENTINEL);
    }

    private void state(ObjectNode answer) throws IOException {
        answer.put("log_start_offset", log.logStartOffset());
        answer.put("log_end_offset", log.logEndOffset());
        answer.put("high_watermark", log.highWatermark());
        answer.put("last_stable_offset", log.lastStableOffset());
        answer.put("first_unstable_offset", log.firstUnstableOffset().orElse(-1L));
        ArrayNode segments = answer.putArray("segments");
        for (LogSegment segment : log.logSegments()) segments.add(segment.baseOffset());
        ArrayNode producers = answer.putArray("producers");
        for (ProducerStateEntry entry : log.producerStateManager().activeProducers().values()) {
            ArrayNode row = producers.addArray();
            row.add(entry.producerId()).add(entry.producerEpoch()).add(entry.coordinatorEpoch());
            row.add(entry.lastTimestamp()).add(entry.currentTxnFirstOffset().orElse(-1L));
            ArrayNode batches = row.addArray();
            for (BatchMetadata batch : entry.batchMetadata())
                batches.addArray().add(batch.lastSeq()).add(batch.lastOffset())
                    .add(batch.offsetDelta()).add(batch.timestamp());
        }
    }

    private static void files(File folder, ObjectNode answer) throws IOException {
        ObjectNode files = answer.putObject("files");
        for (File file : folder.listFiles())
            files.put(file.getName(), Files.readAllBytes(file.toPath()));
    }

    /** Every batch of the bytes, checked and read to its end. */
    private static void read(JsonNode asked, ObjectNode answer) {
        ArrayNode batches = answer.putArray("batches");
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(bytes(asked, "records")).batches()) {
            batch.ensureValid();
            ArrayNode row = batches.addArray();
            row.add(batch.baseOffset()).add(batch.lastOffset()).add(batch.producerId());
            row.add(batch.producerEpoch()).add(batch.baseSequence()).add(batch.lastSequence());
            row.add(batch.maxTimestamp()).add(batch.isTransactional()).add(batch.isControlBatch());
            ArrayNode records = row.addArray();
            try (CloseableIterator<Record> each = batch.streamingIterator(BufferSupplier.NO_CACHING)) {
                while (each.hasNext()) describe(each.next(), batch.isControlBatch(), records.addArray());
            }
        }
    }

    private static void describe(Record record, boolean isControl, ArrayNode row) {
        row.add(record.offset()).add(record.timestamp()).add(record.sequence());
        row.add(array(record.key())).add(array(record.value()));
        ArrayNode headers = row.addArray();
        for (Header header : record.headers()) headers.addArray().add(header.key()).add(header.value());
        if (isControl) row.add(ControlRecordType.parse(record.key()).name());
    }

    /** A batch from Kafka's own builder. */
    private static void build(JsonNode asked, ObjectNode answer) throws IOException {
        JsonNode with = asked.get("with");
        long offset = with.get("base_offset").asLong();
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            ByteBuffer.allocate(1 << 12), (byte) with.get("magic").asInt(),
            Compression.of(CompressionType.forId(with.get("codec").asInt())).build(),
            TimestampType.forName(with.get("timestamp_type").asText()), offset, with.get("now").asLong(),
            with.get("producer_id").asLong(), (short) with.get("producer_epoch").asInt(),
            with.get("base_sequence").asInt(), with.get("transactional").asBoolean(),
            with.has("marker"), with.get("leader_epoch").asInt(), 1 << 20);
        if (with.has("marker")) {
            ControlRecordType type = ControlRecordType.valueOf(with.get("marker").asText());
            int coordinator = with.get("coordinator_epoch").asInt();
            builder.appendEndTxnMarker(with.get("now").asLong(), new EndTransactionMarker(type, coordinator));
        }
        for (JsonNode record : with.get("records")) {
            Header[] headers = new Header[record.get(3).size()];
            for (int i = 0; i < headers.length; i++) {
                JsonNode header = record.get(3).get(i);
                headers[i] = new RecordHeader(header.get(0).asText(), header.get(1).binaryValue());
            }
            builder.append(
                record.get(0).asLong(), record.get(1).binaryValue(), record.get(2).binaryValue(), headers);
        }
        answer.put("records", array(builder.build().buffer()));
    }

    /** A coordinator's key or value, by the name of its generated class. */
    private static void decode(JsonNode asked, ObjectNode answer) throws ReflectiveOperationException {
        ByteBuffer buffer = bytes(asked, "bytes");
        short version = buffer.getShort();
        Class<?> kind = Class.forName(COORDINATOR_PACKAGE + asked.get("kind").asText());
        Object message = kind
            .getConstructor(org.apache.kafka.common.protocol.Readable.class, short.class)
            .newInstance(new ByteBufferAccessor(buffer), version);
        answer.put("version", version);
        answer.set("value", (JsonNode) Class.forName(kind.getName() + "JsonConverter")
            .getMethod("write", kind, short.class).invoke(null, message, version));
    }

    private static void encode(JsonNode asked, ObjectNode answer) throws ReflectiveOperationException {
        short version = (short) asked.get("version").asInt();
        Class<?> kind = Class.forName(COORDINATOR_PACKAGE + asked.get("kind").asText());
        Object message = Class.forName(kind.getName() + "JsonConverter")
            .getMethod("read", JsonNode.class, short.class).invoke(null, asked.get("value"), version);
        answer.put("bytes", MessageUtil.toVersionPrefixedBytes(version, (ApiMessage) message));
    }

    private static ByteBuffer bytes(JsonNode asked, String name) {
        try {
            return ByteBuffer.wrap(asked.get(name).binaryValue());
        } catch (IOException error) {
            throw new IllegalArgumentException(error);
        }
    }

    private static byte[] array(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return copy;
    }

    /** The time that the caller says it is. */
    private static final class Clock implements Time {
        private long now;

        @Override public long milliseconds() { return now; }

        @Override public long nanoseconds() { return now * 1_000_000; }

        @Override public void sleep(long ms) { now += ms; }

        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
            throw new UnsupportedOperationException();
        }
    }

    /** What a broker does in the background at once is done at once; what it does later is asked for. */
    private static final class Idle implements Scheduler {
        @Override public void startup() { }

        @Override public void shutdown() { }

        @Override public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            if (delay <= 0 && period < 0) task.run();
            return new Done();
        }

        @Override public void resizeThreadPool(int size) { }
    }

    /** A task that is never waited for. */
    private static final class Done extends CompletableFuture<Object> implements ScheduledFuture<Object> {
        @Override public long getDelay(TimeUnit unit) { return 0; }

        @Override public int compareTo(Delayed other) { return 0; }
    }
}
