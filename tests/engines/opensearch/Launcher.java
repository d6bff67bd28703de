import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.common.logging.LogConfigurator;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.knn.plugin.KNNPlugin;
import org.opensearch.painless.PainlessPlugin;
import org.opensearch.transport.Netty4Plugin;

/** Runs one node on loopback until the process ends: {@code Launcher FOLDER HTTP_PORT TRANSPORT_PORT [SEED_PORT]}. */
public final class Launcher extends Node {
    private Launcher(Environment environment) {
        super(environment, List.of(Netty4Plugin.class, PainlessPlugin.class, KNNPlugin.class), true);
    }

    public static void main(String[] args) throws Exception {
        Settings settings = Settings.builder()
            .put("path.home", args[0])
            .put("cluster.name", "test-" + args[1])
            .put("node.name", "node-" + args[1])
            .put("network.host", "127.0.0.1")
            .put("http.port", args[1])
            .put("transport.port", args[2])
            .put("http.type", "netty4")
            .put("transport.type", "netty4")
            .put("discovery.type", "single-node")
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
        LogConfigurator.registerErrorListener();
        Environment environment = InternalSettingsPreparer.prepareEnvironment(
            settings, Map.of(), Path.of(args[0], "config"), () -> "node-" + args[1]);
        new Launcher(environment).start();
        new CountDownLatch(1).await();
    }
}
