package org.opensearch.transport.grpc.spi;

/** Stands for a type of the server's module for gRPC, which is not on Maven Central; k-NN 3.5 names it and never uses it. */
public interface QueryBuilderProtoConverter {}
