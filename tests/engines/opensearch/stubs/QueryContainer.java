package org.opensearch.protobufs;

/** Stands for a message of the server's module for gRPC; k-NN 3.5 names it and never uses it. */
public interface QueryContainer {
    enum QueryContainerCase { KNN }
}
