import java.util.Collections;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.common.TopicPartition;

/**
 * What Kafka's Admin can do with transactions: each call once, for an id whose transaction is open
 * on partition 0 of a topic. Each line of the output is a call and what it gave.
 */
public final class TransactionsAdmin {
  public static void main(String[] arguments) throws Exception {
    String id = arguments[1];
    TopicPartition partition = new TopicPartition(arguments[2], 0);
    Properties properties = new Properties();
    properties.put("bootstrap.servers", arguments[0]);
    try (Admin admin = Admin.create(properties)) {
      ListTransactionsOptions ongoing =
          new ListTransactionsOptions()
              .filterStates(Set.of(TransactionState.ONGOING))
              .filterOnDuration(0)
              .filterOnTransactionalIdPattern(id.substring(0, 4) + ".*");
      for (TransactionListing each : admin.listTransactions(ongoing).all().get()) {
        System.out.println("listed " + each.transactionalId() + " " + each.state());
      }
      TransactionDescription described =
          admin.describeTransactions(Set.of(id)).description(id).get();
      System.out.println("described " + described.state() + " " + described.topicPartitions());
      var producers = admin.describeProducers(Set.of(partition)).partitionResult(partition).get();
      var producer = producers.activeProducers().get(0);
      boolean same = producer.producerId() == described.producerId();
      System.out.println(
          "producing " + same + " from " + producer.currentTransactionStartOffset().getAsLong());
      admin
          .abortTransaction(
              new AbortTransactionSpec(
                  partition, producer.producerId(), (short) producer.producerEpoch(), 0))
          .all()
          .get();
      producers = admin.describeProducers(Set.of(partition)).partitionResult(partition).get();
      boolean open =
          producers.activeProducers().get(0).currentTransactionStartOffset().isPresent();
      System.out.println("aborted, still open: " + open);
      var fenced = admin.fenceProducers(Collections.singleton(id));
      System.out.println(
          "fenced "
              + (fenced.producerId(id).get() == described.producerId())
              + " "
              + (fenced.epochId(id).get() > described.producerEpoch()));
      System.out.println(
          "described "
              + admin.describeTransactions(Set.of(id)).description(id).get().state());
      System.out.println("features " + new TreeMap<>(
          admin.describeFeatures().featureMetadata().get().finalizedFeatures()).keySet());
    }
  }
}
