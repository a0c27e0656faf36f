import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A worker whose members use Apache Kafka's Java client; worker.py documents the commands. */
public final class JavaWorker {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, Object> QUICK =
      Map.of("reconnect.backoff.ms", 10, "retry.backoff.ms", 10, "retry.backoff.max.ms", 50);

  private final Map<String, Member> members = new HashMap<>();
  private final Map<String, Sender> senders = new HashMap<>();

  public static void main(String[] arguments) throws Exception {
    JavaWorker worker = new JavaWorker();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      Map<String, Object> answer = new LinkedHashMap<>();
      try {
        answer.put("ok", worker.obey(JSON.readTree(line)));
      } catch (Exception error) {
        answer.put("error", error.getClass().getSimpleName());
        answer.put("says", String.valueOf(error.getMessage()));
      }
      System.out.println(JSON.writeValueAsString(answer));
    }
    System.exit(0);
  }

  private Object obey(JsonNode asked) throws Exception {
    String verb = asked.get("verb").asText();
    if (verb.equals("produce")) {
      Sender sender = sender(asked.get("bootstrap").asText());
      int before = sender.acknowledged.size();
      return sender.produce(asked).acknowledged.size() - before;
    }
    if (verb.equals("end")) {
      members.values().forEach(each -> each.consumer.close());
      members.clear();
      senders.values().forEach(each -> each.producer.close(Duration.ZERO));
      senders.clear();
      return null;
    }
    String name = asked.get("name").asText();
    if (verb.equals("open")) {
      members.put(name, new Member(asked));
      return null;
    }
    if (verb.equals("open_producer")) {
      senders.put(name, new Sender(asked));
      return null;
    }
    Sender sender = senders.get(name);
    Member member = members.get(name);
    switch (verb) {
      case "send":
        sender.produce(asked);
        return Map.of("acknowledged", sender.acknowledged, "failed", sender.failed);
      case "begin":
        sender.producer.beginTransaction();
        return null;
      case "commit_transaction":
        sender.commit();
        return null;
      case "abort_transaction":
        sender.producer.abortTransaction();
        return null;
      case "fetch":
        return member.fetch(Duration.ofMillis(Math.round(asked.get("within_s").asDouble() * 1000)));
      case "work":
        return member.work(asked.get("count").asInt(), asked.get("and_commit").asBoolean());
      case "commit":
        member.consumer.commitSync(member.next);
        return null;
      case "events":
        return member.events;
      case "close":
        members.remove(name).consumer.close();
        return null;
      default:
        throw new IllegalArgumentException(verb);
    }
  }

  private static List<String> texts(JsonNode array) {
    List<String> texts = new ArrayList<>();
    array.forEach(each -> texts.add(each.asText()));
    return texts;
  }

  private Sender sender(String bootstrap) {
    return senders.computeIfAbsent(
        bootstrap, each -> new Sender(JSON.createObjectNode().put("bootstrap", each)));
  }

  /** A record that can't be processed. */
  static final class Poison extends Exception {
    Poison(String value) {
      super(value);
    }
  }

  /** A consumer in a group and its current batch. */
  private final class Member implements ConsumerRebalanceListener {
    final KafkaConsumer<String, String> consumer;
    final String bootstrap;
    final boolean careful;
    final List<ConsumerRecord<String, String>> batch = new ArrayList<>();
    final Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
    final List<Object> events = new ArrayList<>();

    Member(JsonNode asked) {
      bootstrap = asked.get("bootstrap").asText();
      careful = asked.get("careful").asBoolean();
      Map<String, Object> options = new HashMap<>(QUICK);
      options.put("bootstrap.servers", bootstrap);
      options.put("group.id", asked.get("group").asText());
      options.put("client.id", asked.get("name").asText());
      options.put("enable.auto.commit", false);
      options.put("auto.offset.reset", asked.get("reset").asText());
      options.put("heartbeat.interval.ms", asked.get("heartbeat_ms").asInt());
      options.put("session.timeout.ms", asked.get("session_ms").asInt());
      options.put("fetch.max.wait.ms", 50);
      options.put("max.poll.records", asked.get("batch").asInt());
      options.put("isolation.level", asked.path("isolation").asText("read_uncommitted"));
      consumer = new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer());
      consumer.subscribe(List.of(asked.get("topic").asText()), this);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> given) {
      tell("assigned", given);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
      Map<TopicPartition, OffsetAndMetadata> done = gaveUp("revoked", revoked);
      if (careful && !done.isEmpty()) {
        consumer.commitSync(done);
      }
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> lost) {
      gaveUp("lost", lost);
    }

    private void tell(String what, Collection<TopicPartition> partitions) {
      Set<Integer> numbers = new TreeSet<>();
      partitions.forEach(each -> numbers.add(each.partition()));
      List<Object> pairs = new ArrayList<>();
      String topic = partitions.isEmpty() ? "" : partitions.iterator().next().topic();
      numbers.forEach(number -> pairs.add(List.of(topic, number)));
      events.add(List.of(what, pairs));
    }

    private Map<TopicPartition, OffsetAndMetadata> gaveUp(
        String what, Collection<TopicPartition> partitions) {
      tell(what, partitions);
      Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>(next);
      done.keySet().retainAll(partitions);
      next.keySet().removeAll(partitions);
      return done;
    }

    List<Object> fetch(Duration within) {
      consumer.poll(within).forEach(batch::add);
      List<Object> records = new ArrayList<>();
      for (ConsumerRecord<String, String> each : batch) {
        records.add(List.of(each.topic(), each.partition(), each.offset(), each.value()));
      }
      return records;
    }

    Map<String, Object> work(int count, boolean commit) throws Exception {
      List<String> done = new ArrayList<>();
      String refused = null;
      while (!batch.isEmpty() && done.size() < count) {
        ConsumerRecord<String, String> record = batch.get(0);
        try {
          if (record.value().startsWith("poison")) {
            throw new Poison(record.value());
          }
          done.add(record.value());
        } catch (Poison poison) {
          if (!careful) {
            throw poison;
          }
          sender(bootstrap).produce(record.topic() + ".dead", List.of(record.value()), 10_000);
        }
        batch.remove(0);
        next.put(of(record), new OffsetAndMetadata(record.offset() + 1));
        if (commit) {
          try {
            consumer.commitSync(Map.of(of(record), new OffsetAndMetadata(record.offset() + 1)));
          } catch (Exception error) {
            refused = error.getClass().getSimpleName();
            if (careful) { // another member owns the partition now
              batch.clear();
            }
          }
        }
      }
      Map<String, Object> answer = new HashMap<>();
      answer.put("done", done);
      answer.put("refused", refused);
      return answer;
    }

    private TopicPartition of(ConsumerRecord<String, String> record) {
      return new TopicPartition(record.topic(), record.partition());
    }
  }

  /** A producer that uses one {@code KafkaProducer}, and what became of its records. */
  private static final class Sender {
    final KafkaProducer<String, String> producer;
    final Map<Future<RecordMetadata>, String> onTheirWay = new LinkedHashMap<>();
    final List<String> acknowledged = new ArrayList<>();
    final List<List<String>> failed = new ArrayList<>();

    Sender(JsonNode asked) {
      Map<String, Object> options = new HashMap<>(QUICK);
      options.put("bootstrap.servers", asked.get("bootstrap").asText());
      options.put("acks", asked.path("acks").asText("all"));
      options.put("enable.idempotence", asked.path("idempotent").asBoolean(true));
      options.put("linger.ms", 0);
      if (asked.path("gives_up").asBoolean()) {
        options.put("retries", 0);
      }
      if (asked.hasNonNull("transactional_id")) {
        options.put("transactional.id", asked.get("transactional_id").asText());
      }
      producer = new KafkaProducer<>(options, new StringSerializer(), new StringSerializer());
      if (asked.hasNonNull("transactional_id")) {
        producer.initTransactions();
      }
    }

    Sender produce(JsonNode asked) throws InterruptedException {
      return produce(
          asked.get("topic").asText(),
          texts(asked.get("values")),
          Math.round(asked.get("within_s").asDouble() * 1000));
    }

    /** Produces values, and waits until all records have an outcome, or until the time is over. */
    Sender produce(String topic, List<String> values, long withinMs) throws InterruptedException {
      for (String value : values) {
        onTheirWay.put(producer.send(new ProducerRecord<>(topic, value)), value);
      }
      long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(withinMs);
      while (!onTheirWay.isEmpty()) {
        Map.Entry<Future<RecordMetadata>, String> oldest = onTheirWay.entrySet().iterator().next();
        try {
          oldest.getKey().get(Math.max(0, end - System.nanoTime()), TimeUnit.NANOSECONDS);
          acknowledged.add(oldest.getValue());
        } catch (ExecutionException error) {
          failed.add(List.of(oldest.getValue(), error.getCause().getClass().getSimpleName()));
        } catch (TimeoutException late) {
          return this;
        }
        onTheirWay.remove(oldest.getKey());
      }
      return this;
    }

    /** Commits the transaction, and repeats a commit that timed out. */
    void commit() {
      while (true) {
        try {
          producer.commitTransaction();
          return;
        } catch (org.apache.kafka.common.errors.TimeoutException late) {
          // the next call continues this commit
        }
      }
    }
  }
}
