// A transactional producer of the Java client, which bumps its epoch with every transaction (TV2).
// Usage: java -cp kafka's jars Transactions.java NAME ADDRESS SEED; ends when its input ends.
// Prints what became of each transaction: outcome, name, then topic, partition and value of each record.

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Transactions {
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    private static volatile boolean stopped = false;

    public static void main(String[] arguments) throws Exception {
        Thread listener = new Thread(Transactions::awaitEnd);
        listener.setDaemon(true);
        listener.start();
        Random random = new Random(Long.parseLong(arguments[2]));
        int number = 0;
        while (!stopped) {
            number = life(arguments[1], arguments[0], random, number);
        }
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() >= 0) { }
        } catch (java.io.IOException ended) {
            // The same as the end of input.
        }
        stopped = true;
    }

    private static int life(String address, String name, Random random, int number) {
        try (KafkaProducer<String, String> producer = producer(address, name, random)) {
            producer.initTransactions();
            for (int done = 0; done < 12 && !stopped; done++) {
                number++;
                if (!transaction(producer, name + "." + number, random)) {
                    producer.close(java.time.Duration.ZERO);
                    return number;
                }
            }
        } catch (KafkaException failed) {
            // The next life begins where the coordinator says.
        }
        return number;
    }

    private static KafkaProducer<String, String> producer(String address, String name, Random random) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("transactional.id", name);
        settings.put("compression.type", CODECS[random.nextInt(CODECS.length)]);
        settings.put("linger.ms", "2");
        settings.put("batch.size", "512");
        settings.put("max.block.ms", "40000");
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static boolean transaction(KafkaProducer<String, String> producer, String name, Random random) {
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int number = 0; number < 1 + random.nextInt(12); number++) {
            boolean stamped = random.nextInt(4) == 0;
            int partition = stamped ? 0 : random.nextInt(3);
            String key = random.nextBoolean() ? null : "k" + random.nextInt(20);
            String value = name + ":" + number + ":" + "x".repeat(random.nextInt(80));
            records.add(new ProducerRecord<>(stamped ? "lat" : "pay", partition, key, value));
        }
        boolean commits = random.nextInt(10) < 7;
        try {
            producer.beginTransaction();
            records.forEach(producer::send);
            if (commits) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        } catch (KafkaException failed) {
            print("unknown", name, records);
            return false;
        }
        print(commits ? "committed" : "aborted", name, records);
        return true;
    }

    private static void print(String outcome, String name, List<ProducerRecord<String, String>> records) {
        StringBuilder line = new StringBuilder(outcome).append('\t').append(name);
        for (ProducerRecord<String, String> record : records) {
            line.append('\t').append(record.topic()).append(' ').append(record.partition());
            line.append(' ').append(record.value());
        }
        System.out.println(line);
        System.out.flush();
    }
}
