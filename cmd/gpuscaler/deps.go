//go:build deps

package main

import (
	_ "github.com/alicebob/miniredis/v2"
	_ "github.com/google/cel-go/cel"
	_ "github.com/google/cel-go/ext"
	_ "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	_ "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/prometheus/common/config"
	_ "github.com/prometheus/common/expfmt"
	_ "github.com/prometheus/prometheus/promql/parser"
	_ "github.com/prometheus/sigv4"
	_ "github.com/redis/go-redis/v9"
	_ "github.com/robfig/cron/v3"
	_ "github.com/spf13/cobra"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/sync/errgroup"
	_ "gonum.org/v1/plot/vg/vgsvg"
	_ "google.golang.org/grpc"
	_ "k8s.io/api/apps/v1"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	_ "k8s.io/metrics/pkg/client/external_metrics"
	_ "pgregory.net/rapid"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/certwatcher"
	_ "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
	_ "sigs.k8s.io/karpenter/pkg/apis/v1"
	_ "sigs.k8s.io/yaml"
)
