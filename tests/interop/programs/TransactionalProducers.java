import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactional producers that do what each line of the input says; each line has one answer.
 *
 * <p>A line is a producer's name, a verb and its words. The answer is "ok ...", or "error" with the
 * class and the message. It runs with the clients of Kafka 0.11 to 4.3 unchanged: what differs
 * between them is called by reflection.
 */
public final class TransactionalProducers {
  private final String bootstrap;
  private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();

  private TransactionalProducers(String bootstrap) {
    this.bootstrap = bootstrap;
  }

  public static void main(String[] arguments) throws Exception {
    TransactionalProducers all = new TransactionalProducers(arguments[0]);
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String answer;
      try {
        answer = "ok " + all.obey(line.split(" "));
      } catch (Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null
            && (cause instanceof InvocationTargetException
                || cause instanceof java.util.concurrent.ExecutionException
                || cause.getClass() == org.apache.kafka.common.KafkaException.class)) {
          cause = cause.getCause();
        }
        answer = "error " + cause.getClass().getSimpleName() + " " + cause.getMessage();
      }
      System.out.println(answer.replace('\n', ' '));
      System.out.flush();
    }
  }

  private Object obey(String[] words) throws Exception {
    String name = words[0];
    if (words[1].equals("new")) {
      producers.put(name, made(words[2], words[3]));
      return "";
    }
    KafkaProducer<String, String> producer = producers.get(name);
    switch (words[1]) {
      case "init":
        producer.initTransactions();
        return "";
      case "begin":
        producer.beginTransaction();
        return "";
      case "send":
        return producer
            .send(new ProducerRecord<>(words[2], Integer.valueOf(words[3]), null, words[4]))
            .get()
            .offset();
      case "offset":
        TopicPartition partition = new TopicPartition(words[3], Integer.parseInt(words[4]));
        sendOffset(producer, words[2], partition, Long.parseLong(words[5]));
        return "";
      case "commit":
        producer.commitTransaction();
        return "";
      case "abort":
        producer.abortTransaction();
        return "";
      case "close":
        producers.remove(name).close();
        return "";
      case "state":
        return pair(producer);
      case "resume":
        resume(producer, Long.parseLong(words[2]), Short.parseShort(words[3]));
        return "";
      default:
        throw new IllegalArgumentException(words[1]);
    }
  }

  private KafkaProducer<String, String> made(String transactionalId, String timeoutMs) {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", bootstrap);
    properties.put("transactional.id", transactionalId);
    properties.put("transaction.timeout.ms", timeoutMs);
    properties.put("max.block.ms", "20000");
    return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
  }

  /** By group id until 4.0 took that form away; by the group's metadata since. */
  private static void sendOffset(
      KafkaProducer<String, String> producer, String group, TopicPartition partition, long offset)
      throws Exception {
    Map<TopicPartition, OffsetAndMetadata> offsets =
        Collections.singletonMap(partition, new OffsetAndMetadata(offset));
    Class<?> metadata;
    try {
      metadata = Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
    } catch (ClassNotFoundException old) {
      Method byName =
          KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, String.class);
      byName.invoke(producer, offsets, group);
      return;
    }
    Object grouped = metadata.getConstructor(String.class).newInstance(group);
    KafkaProducer.class
        .getMethod("sendOffsetsToTransaction", Map.class, metadata)
        .invoke(producer, offsets, grouped);
  }

  private static Object field(Object of, String name) throws Exception {
    Field field = of.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field.get(of);
  }

  private static void setField(Object of, String name, Object value) throws Exception {
    Field field = of.getClass().getDeclaredField(name);
    field.setAccessible(true);
    field.set(of, value);
  }

  /** The producer id and epoch, as a job writes them into its checkpoint. */
  private static String pair(KafkaProducer<String, String> producer) throws Exception {
    Object pair = field(field(producer, "transactionManager"), "producerIdAndEpoch");
    return field(pair, "producerId") + " " + field(pair, "epoch");
  }

  /**
   * Goes on with the open transaction of a producer that is gone, as Flink's sink does after a
   * restart: no InitProducerId, which would abort it.
   */
  @SuppressWarnings({"unchecked", "rawtypes"})
  private static void resume(KafkaProducer<String, String> producer, long id, short epoch)
      throws Exception {
    Object manager = field(producer, "transactionManager");
    synchronized (manager) {
      Class<?> states = Class.forName(manager.getClass().getName() + "$State");
      Method move = null;
      for (Method method : manager.getClass().getDeclaredMethods()) {
        if (method.getName().equals("transitionTo") && method.getParameterCount() == 1) {
          move = method;
        }
      }
      move.setAccessible(true);
      move.invoke(manager, Enum.valueOf((Class) states, "INITIALIZING"));
      Object before = field(manager, "producerIdAndEpoch");
      var constructor = before.getClass().getDeclaredConstructor(long.class, short.class);
      constructor.setAccessible(true);
      setField(manager, "producerIdAndEpoch", constructor.newInstance(id, epoch));
      move.invoke(manager, Enum.valueOf((Class) states, "READY"));
      move.invoke(manager, Enum.valueOf((Class) states, "IN_TRANSACTION"));
      setField(manager, "transactionStarted", true);
    }
  }
}
