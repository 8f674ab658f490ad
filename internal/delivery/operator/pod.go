package operator

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"modeldock.io/api/v1alpha1"
)

// engineContainer is the name of the container that serves the model.
const engineContainer = v1alpha1.ContainerName

// Probes. A model may load for long, so the startup probe asks often and for
// long; then three unanswered readiness probes take the replica off the route.
const (
	startupPeriod    = 1 * time.Second
	readinessPeriod  = 5 * time.Second
	readinessMisses  = 3
	probeTimeoutSecs = 3
)

func podOf(m *v1alpha1.ModelService, p program, o Options) *corev1ac.PodSpecApplyConfiguration {
	pod := corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(int64((o.DrainDelay + o.LongestStream).Seconds())).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).WithRunAsUser(runAs).WithRunAsGroup(runAs).WithFSGroup(runAs).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(containerOf(m, p, o)).
		WithVolumes(
			corev1ac.Volume().WithName("cache").WithEmptyDir(corev1ac.EmptyDirVolumeSource()),
			corev1ac.Volume().WithName("tmp").WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
	if p.sharedMem {
		pod.WithVolumes(corev1ac.Volume().WithName("shm").WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithMedium(corev1.StorageMediumMemory)))
	}
	if p.claim != "" {
		pod.WithVolumes(corev1ac.Volume().WithName("models").WithPersistentVolumeClaim(
			corev1ac.PersistentVolumeClaimVolumeSource().WithClaimName(p.claim).WithReadOnly(true)))
	}
	if o.GPU.Mode == GPUDRA {
		pod.WithResourceClaims(podClaimOf(m))
	}
	if o.GPU.Mode != GPUNone && o.GPU.SchedulerName != "" {
		pod.WithSchedulerName(o.GPU.SchedulerName)
	}
	return pod
}

func containerOf(m *v1alpha1.ModelService, p program, o Options) *corev1ac.ContainerApplyConfiguration {
	c := corev1ac.Container().
		WithName(engineContainer).WithImage(p.image).
		WithCommand(p.command...).WithArgs(p.args...).WithEnv(p.env...).
		WithPorts(corev1ac.ContainerPort().WithName(portName).WithContainerPort(p.port).WithProtocol(corev1.ProtocolTCP)).
		WithStartupProbe(startupOf(p)).
		WithReadinessProbe(probe(readinessPeriod, readinessMisses).WithHTTPGet(healthOf(p))).
		WithLifecycle(corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().WithSleep(
			corev1ac.SleepAction().WithSeconds(int64(o.DrainDelay.Seconds()))))).
		// The last lines of a failed engine are the reason that its owner sees.
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(p.readOnly).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))).
		WithResources(resourcesOf(m, o)).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName("cache").WithMountPath(cacheDir),
			corev1ac.VolumeMount().WithName("tmp").WithMountPath(tmpDir))
	if o.ImagePullPolicy != "" {
		c.WithImagePullPolicy(o.ImagePullPolicy)
	}
	if p.sharedMem {
		c.WithVolumeMounts(corev1ac.VolumeMount().WithName("shm").WithMountPath("/dev/shm"))
	}
	if p.claim != "" {
		c.WithVolumeMounts(corev1ac.VolumeMount().WithName("models").WithMountPath(modelsDir).WithReadOnly(true))
	}
	return c
}

func startupOf(p program) *corev1ac.ProbeApplyConfiguration {
	start := probe(startupPeriod, int32(p.loadTime.Seconds()/startupPeriod.Seconds()))
	if len(p.loaded) > 0 {
		return start.WithExec(corev1ac.ExecAction().WithCommand(p.loaded...))
	}
	return start.WithHTTPGet(healthOf(p))
}

func healthOf(p program) *corev1ac.HTTPGetActionApplyConfiguration {
	return corev1ac.HTTPGetAction().WithPath(p.healthPath).WithPort(intstr.FromString(portName))
}

func probe(every time.Duration, misses int32) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithPeriodSeconds(int32(every.Seconds())).WithFailureThreshold(misses).WithTimeoutSeconds(probeTimeoutSecs)
}

func resourcesOf(m *v1alpha1.ModelService, o Options) *corev1ac.ResourceRequirementsApplyConfiguration {
	r := corev1ac.ResourceRequirements()
	if len(o.Requests) > 0 {
		r.WithRequests(o.Requests)
	}
	if limits := o.GPU.limits(m.Spec.GPU); limits != nil {
		r.WithLimits(limits)
	}
	if o.GPU.Mode == GPUDRA {
		r.WithClaims(corev1ac.ResourceClaim().WithName(claimName))
	}
	return r
}
