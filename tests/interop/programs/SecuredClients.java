import java.io.FileReader;
import java.io.Reader;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Producers and consumers of any Kafka since 0.10, one after the other in one JVM.
 *
 * <p>Its arguments are groups of five: a name, `write` or `read`, a file of client properties, the
 * topic, and the values to write (with commas) or how many to read. Of each it prints a line: the
 * name, then `ok` with what was written or read, or `failed` with the exception.
 */
public class SecuredClients {
    private static final long ENOUGH_MS = 30_000;

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < arguments.length; i += 5) {
            String told;
            try {
                Properties properties = properties(arguments[i + 2]);
                String topic = arguments[i + 3];
                told = "ok " + (arguments[i + 1].equals("write")
                    ? write(properties, topic, arguments[i + 4])
                    : read(properties, topic, Integer.parseInt(arguments[i + 4])));
            } catch (ExecutionException e) {
                told = "failed " + e.getCause();
            } catch (Exception e) {
                told = "failed " + e;
            }
            System.out.println(arguments[i] + " " + told.replace('\n', ' '));
        }
    }

    private static Properties properties(String file) throws Exception {
        Properties found = new Properties();
        try (Reader reader = new FileReader(file)) {
            found.load(reader);
        }
        String strings = "org.apache.kafka.common.serialization.String";
        for (String which : new String[] {"key", "value"}) {
            found.setProperty(which + ".serializer", strings + "Serializer");
            found.setProperty(which + ".deserializer", strings + "Deserializer");
        }
        return found;
    }

    private static String write(Properties properties, String topic, String values)
            throws Exception {
        properties.setProperty("acks", "all");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            for (String value : values.split(",")) {
                producer.send(new ProducerRecord<>(topic, value)).get();
            }
        }
        return values;
    }

    private static String read(Properties properties, String topic, int count) throws Exception {
        properties.setProperty("auto.offset.reset", "earliest");
        properties.setProperty("enable.auto.commit", "false");
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(Collections.singletonList(topic));
            long end = System.currentTimeMillis() + ENOUGH_MS;
            while (found.size() < count && System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> each : poll(consumer)) {
                    found.add(each.value());
                }
            }
            consumer.commitSync();
        }
        return String.join(",", found);
    }

    /** Polls by the method that the client has: until 1.1 it takes a long, from 4.0 a Duration. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer)
            throws Exception {
        Object found;
        try {
            try {
                Method poll = KafkaConsumer.class.getMethod("poll", Duration.class);
                found = poll.invoke(consumer, Duration.ofMillis(500));
            } catch (NoSuchMethodException e) {
                found = KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 500L);
            }
        } catch (java.lang.reflect.InvocationTargetException e) {
            throw (Exception) e.getCause();
        }
        return (ConsumerRecords<String, String>) found;
    }
}
