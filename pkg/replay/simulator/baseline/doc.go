// Package baseline contains the autoscalers that gpuscaler is compared with in a simulation. They compute the replicas themselves and do
// not use gpuscaler's target.
//
//	hpa.go          HorizontalPodAutoscalers on metrics of the workload
//	keda.go         KEDA with its own triggers; kedacron.go has the cron trigger
//	knative.go      Knative's KPA
//	skyserve.go     SkyServe's request-rate autoscaler; skyfallback.go has its on-demand fallback
//	wva.go          llm-d's Workload Variant Autoscaler
//	plan.go         a fixed number of replicas, and a plan such as the schedule behind a lower bound
//	catalogue.go    all of them with the parameters that a search can tune
//
// An autoscaler is an [autoscaler.Actuator] and reads its workload through an [autoscaler.Scene] only.
package baseline
