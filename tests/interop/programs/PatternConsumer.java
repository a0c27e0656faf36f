import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;

/**
 * A member of a consumer group whose broker resolves its regex: SubscriptionPattern. The arguments
 * are the bootstrap address, the group and the regex. Each line of the output is a topic and a value
 * of a record.
 */
public final class PatternConsumer {
  public static void main(String[] arguments) {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", arguments[0]);
    properties.put("group.id", arguments[1]);
    properties.put("client.id", "pattern");
    properties.put("group.protocol", "consumer");
    properties.put("auto.offset.reset", "earliest");
    properties.put("metadata.max.age.ms", "1000");
    String text = "org.apache.kafka.common.serialization.StringDeserializer";
    properties.put("key.deserializer", text);
    properties.put("value.deserializer", text);
    try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
      consumer.subscribe(new SubscriptionPattern(arguments[2]));
      while (true) {
        for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofSeconds(1))) {
          System.out.println(each.topic() + " " + each.value());
        }
      }
    }
  }
}
