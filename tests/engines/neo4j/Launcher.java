import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import org.neo4j.configuration.GraphDatabaseSettings;
import org.neo4j.configuration.connectors.BoltConnector;
import org.neo4j.configuration.helpers.SocketAddress;
import org.neo4j.configuration.ssl.SslPolicyConfig;
import org.neo4j.configuration.ssl.SslPolicyScope;
import org.neo4j.dbms.api.DatabaseManagementService;
import org.neo4j.dbms.api.DatabaseManagementServiceBuilder;

/**
 * Runs one server on loopback until the process ends: {@code Launcher FOLDER BOLT_PORT PASSWORD}. It also speaks TLS,
 * with FOLDER/tls/public.crt and private.key. Its page cache has 64 MB, or as -Dpage_cache_mb says.
 */
public final class Launcher {
    private Launcher() {}

    public static void main(String[] args) throws Exception {
        boolean isNew = !Files.exists(Path.of(args[0], "data"));
        SslPolicyConfig tls = SslPolicyConfig.forScope(SslPolicyScope.BOLT);
        SocketAddress address = new SocketAddress("127.0.0.1", Integer.parseInt(args[1]));
        DatabaseManagementService server = new DatabaseManagementServiceBuilder(Path.of(args[0]))
            .setConfig(BoltConnector.enabled, true)
            .setConfig(BoltConnector.listen_address, address)
            .setConfig(BoltConnector.advertised_address, address)
            .setConfig(BoltConnector.encryption_level, BoltConnector.EncryptionLevel.OPTIONAL)
            .setConfig(tls.enabled, true)
            .setConfig(tls.base_directory, Path.of(args[0], "tls"))
            .setConfig(GraphDatabaseSettings.auth_enabled, true)
            .setConfig(GraphDatabaseSettings.auth_max_failed_attempts, 1000)
            .setConfig(GraphDatabaseSettings.pagecache_memory, Long.getLong("page_cache_mb", 64) << 20)
            .setConfig(GraphDatabaseSettings.preallocate_logical_logs, false)
            .build();
        if (isNew) {
            server.database("system").executeTransactionally(
                "ALTER USER neo4j SET PASSWORD '" + args[2] + "' CHANGE NOT REQUIRED");
        }
        System.out.println("READY");
        new CountDownLatch(1).await();
    }
}
